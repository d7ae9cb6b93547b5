//! A batch under its lease, in lock order.

use std::collections::HashMap;

use claims_model::lookalike::NewSkeleton;
use claims_model::{Batch, Bucket, Claim, Conflict, Destroy, Op, Types};
use uuid::Uuid;

use crate::tables::Tables;
use crate::tables::rows::leases::NewLease;

/// A batch under its lease, sorted for locking.
pub struct Request<'b> {
    /// The tables of the service, chosen once for the call.
    pub tables: &'b dyn Tables,
    pub batch: &'b Batch<'b>,
    pub lease: NewLease,
    /// Whether the client chose the uuid, so that the call may be a repeat.
    pub may_be_repeat: bool,
    pub creates: Vec<&'b Claim<'b>>,
    pub destroys: Vec<&'b Destroy<'b>>,
    /// The skeletons that its new names need, for types that refuse confusable names.
    pub skeletons: Vec<NewSkeleton<'b>>,
}

impl<'b> Request<'b> {
    pub fn new(
        tables: &'b dyn Tables,
        batch: &'b Batch<'b>,
        lease: NewLease,
        may_be_repeat: bool,
        types: &Types,
    ) -> Self {
        // Every batch takes its rows in one order, creates by bucket, then destroys by bucket. So two calls that wait for each
        // other form a queue and no deadlock.
        Request {
            tables,
            batch,
            lease,
            may_be_repeat,
            creates: batch.creates_in_lock_order(),
            destroys: batch.destroys_in_lock_order(),
            skeletons: batch.new_skeletons(types),
        }
    }

    /// Returns the lease as begun by this call.
    pub fn begun(&self) -> Begun {
        Begun { lease: self.lease.uuid, chosen: self.lease.chosen, is_new: true }
    }

    /// Returns the steps of the batch row by row, in lock order.
    pub fn steps(&self) -> impl Iterator<Item = ClaimStep<'b>> + '_ {
        let creates = self.creates.iter().map(|claim| ClaimStep::Create(claim));
        let skeletons = self.skeletons.iter().map(|new| ClaimStep::Skeleton(*new));
        creates.chain(skeletons).chain(self.destroys.iter().map(|destroy| ClaimStep::Destroy(destroy)))
    }
}

/// A lease that this call or an earlier one has begun.
#[derive(Debug, Clone, Copy)]
pub struct Begun {
    pub lease: Uuid,
    /// Position of the batch in the alternatives of begin_first, from 1.
    pub chosen: Option<u8>,
    /// Whether this call has begun it.
    pub is_new: bool,
}

/// The conflicts of a batch, by bucket.
pub type Conflicts<'b> = HashMap<&'b Bucket<'b>, Conflict<'b>>;

/// A step of taking a batch, for one bucket.
#[derive(Clone, Copy)]
pub enum ClaimStep<'b> {
    Create(&'b Claim<'b>),
    /// Takes the skeleton of a new name.
    Skeleton(NewSkeleton<'b>),
    /// Marks an existing claim to be destroyed or replaced.
    Destroy(&'b Destroy<'b>),
}

impl<'b> ClaimStep<'b> {
    pub fn op(self) -> Op {
        match self {
            ClaimStep::Create(_) | ClaimStep::Skeleton(_) => Op::Create,
            ClaimStep::Destroy(_) => Op::Destroy,
        }
    }

    pub fn bucket(self) -> &'b Bucket<'b> {
        match self {
            ClaimStep::Create(claim) => &claim.bucket,
            ClaimStep::Skeleton(new) => new.bucket,
            ClaimStep::Destroy(destroy) => &destroy.bucket,
        }
    }
}
