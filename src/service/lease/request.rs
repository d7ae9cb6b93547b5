//! A batch under its lease, in the order of its locks.

use std::collections::HashMap;

use claims_model::lookalike::NewLook;
use claims_model::{Batch, Bucket, Claim, Conflict, Destroy, Op, Types};
use uuid::Uuid;

use crate::store::service::leases::NewLease;

/// A batch under its lease, sorted for locking.
pub struct Request<'b> {
    pub batch: &'b Batch<'b>,
    pub lease: NewLease,
    /// The client chose the uuid, so the call may be a repeat.
    pub may_be_repeat: bool,
    pub creates: Vec<&'b Claim<'b>>,
    pub destroys: Vec<&'b Destroy<'b>>,
    /// The looks that its new names need, of types that mind them.
    pub looks: Vec<NewLook<'b>>,
}

impl<'b> Request<'b> {
    pub fn new(batch: &'b Batch<'b>, lease: NewLease, may_be_repeat: bool, types: &Types) -> Self {
        // Every batch takes its rows in one order, creates by bucket, then destroys by bucket: two single calls that
        // wait for each other do so in a line and not in a circle.
        Request {
            batch,
            lease,
            may_be_repeat,
            creates: batch.creates_in_lock_order(),
            destroys: batch.destroys_in_lock_order(),
            looks: batch.new_looks(types),
        }
    }

    /// Its lease, taken by this call.
    pub fn begun(&self) -> Begun {
        Begun { lease: self.lease.uuid, chosen: self.lease.chosen, is_new: true }
    }

    /// The batch row by row, in lock order.
    pub fn steps(&self) -> impl Iterator<Item = ClaimStep<'b>> + '_ {
        let creates = self.creates.iter().map(|claim| ClaimStep::Create(claim));
        let looks = self.looks.iter().map(|new| ClaimStep::Look(*new));
        creates.chain(looks).chain(self.destroys.iter().map(|destroy| ClaimStep::Destroy(destroy)))
    }
}

/// A lease that is there, by this call or by an earlier one.
#[derive(Debug, Clone, Copy)]
pub struct Begun {
    pub lease: Uuid,
    /// Of which of several batches.
    pub chosen: Option<u8>,
    /// It is there by this call.
    pub is_new: bool,
}

/// What is in the way of a batch, by bucket.
pub type Conflicts<'b> = HashMap<&'b Bucket<'b>, Conflict<'b>>;

/// What is to be done with one bucket.
#[derive(Clone, Copy)]
pub enum ClaimStep<'b> {
    Create(&'b Claim<'b>),
    /// Its name needs its look for itself.
    Look(NewLook<'b>),
    /// It is there, to be destroyed or to be replaced.
    Destroy(&'b Destroy<'b>),
}

impl<'b> ClaimStep<'b> {
    pub fn op(self) -> Op {
        match self {
            ClaimStep::Create(_) | ClaimStep::Look(_) => Op::Create,
            ClaimStep::Destroy(_) => Op::Destroy,
        }
    }

    pub fn bucket(self) -> &'b Bucket<'b> {
        match self {
            ClaimStep::Create(claim) => &claim.bucket,
            ClaimStep::Look(new) => new.bucket,
            ClaimStep::Destroy(destroy) => &destroy.bucket,
        }
    }
}
