//! Taking a batch's claims: one optimistic statement, and an explanation when it fails.

use claims_model::{Batch, Bucket, Claim, Conflict, Op};
use pgrx::PgSqlErrorCode as Code;
use uuid::Uuid;

use super::explain;
use crate::error::ClaimsError;
use crate::pg::settings::LockWaits;
use crate::pg::spi::{Connection, View};
use crate::pg::subtransaction::{subtransaction, translate_error};
use crate::store::service::claims;
use crate::store::service::leases::{self, NewLease};

/// Errors by which another transaction shows that it is in the way.
pub const IN_THE_WAY: [Code; 3] =
    [Code::ERRCODE_UNIQUE_VIOLATION, Code::ERRCODE_LOCK_NOT_AVAILABLE, Code::ERRCODE_T_R_DEADLOCK_DETECTED];

/// A batch under its lease, sorted for locking.
pub struct Request<'b> {
    pub batch: &'b Batch<'b>,
    pub lease: NewLease,
    /// The client chose the uuid, so the call may be a repeat.
    pub may_be_repeat: bool,
    pub creates: Vec<&'b Claim<'b>>,
    pub destroys: Vec<&'b Bucket<'b>>,
}

impl<'b> Request<'b> {
    pub fn new(batch: &'b Batch<'b>, lease: NewLease, may_be_repeat: bool) -> Self {
        // Every batch takes its rows in one order, creates by bucket, then destroys by bucket: two single calls that
        // wait for each other do so in a line and not in a circle.
        Request {
            batch,
            lease,
            may_be_repeat,
            creates: batch.creates_in_lock_order(),
            destroys: batch.destroys_in_lock_order(),
        }
    }

    /// The batch row by row, in lock order.
    pub fn steps(&self) -> impl Iterator<Item = Step<'b>> + '_ {
        let creates = self.creates.iter().map(|claim| Step::Create(claim));
        creates.chain(self.destroys.iter().map(|bucket| Step::Destroy(bucket)))
    }
}

/// What is to be done with one bucket.
#[derive(Clone, Copy)]
pub enum Step<'b> {
    Create(&'b Claim<'b>),
    Destroy(&'b Bucket<'b>),
}

impl<'b> Step<'b> {
    pub fn op(self) -> Op {
        match self {
            Step::Create(_) => Op::Create,
            Step::Destroy(_) => Op::Destroy,
        }
    }

    pub fn bucket(self) -> &'b Bucket<'b> {
        match self {
            Step::Create(claim) => &claim.bucket,
            Step::Destroy(bucket) => bucket,
        }
    }
}

/// How an attempt to take a batch ends.
pub enum Acquired<'b> {
    Lease(Uuid),
    Conflicts(Vec<Conflict<'b>>),
}

/// The attempt saw that it is not to be kept.
pub struct NotKept;

/// Takes the lease and all claims of the batch, or says why not. Locks, in this order: the key of the lease, the keys of
/// the created buckets in bucket order, the rows of the destroyed claims in bucket order. Nothing of a failed attempt
/// stays.
pub fn acquire<'b>(connection: &Connection, request: &Request<'b>) -> Result<Acquired<'b>, ClaimsError> {
    let waits = LockWaits::limit(0);
    let attempt = subtransaction(&IN_THE_WAY, || {
        let taken = claims::take_all(connection, &request.lease, &request.creates, &request.destroys);
        if taken == request.batch.len() { keep_if_new(connection, request) } else { Err(NotKept) }
    });
    drop(waits);
    match attempt {
        Ok(()) => Ok(Acquired::Lease(request.lease.uuid)),
        Err(_) => translate_error(
            Code::ERRCODE_LOCK_NOT_AVAILABLE,
            || ClaimsError::TableLocked,
            || explain::explain(connection, request),
        ),
    }
}

/// A lease whose uuid has an outcome is not new, also if its row could be put in. Asked after the row is in and of the
/// latest state: a fence of the same uuid passes through the same key, so it has either been seen here or will see us.
pub fn keep_if_new(connection: &Connection, request: &Request) -> Result<(), NotKept> {
    let is_repeat = request.may_be_repeat
        && leases::known(connection, &[request.lease.uuid], View::Latest).iter().any(|known| known.outcome.is_some());
    if is_repeat { Err(NotKept) } else { Ok(()) }
}
