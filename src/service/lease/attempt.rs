//! Attempts to take a batch, as a whole or row by row. A failed attempt leaves nothing behind.

use std::cell::Cell;
use std::time::Instant;

use pgrx::PgSqlErrorCode as Code;

use super::request::{ClaimStep, Request};
use crate::service::claims::kept::{self, Right};
use crate::service::claims::{
    CLAIM_TABLES, CONTENTION_SQLSTATES, KeyExists, LEASE_TABLES, Locks, RowsToInsert, SKELETON_TABLES,
};
use crate::service::low_water;
use pg::settings::LockWaits;
use pg::subtransaction::{Undone, subtransaction, subtransaction_on_demand};
use pg::xact::Surroundings;

/// The error of an attempt that has to be rolled back.
pub struct Rejected;

impl From<KeyExists> for Rejected {
    fn from(KeyExists: KeyExists) -> Self {
        Rejected
    }
}

/// Attempts to take everything at once without waiting. Returns whether it succeeded.
pub fn take_whole(request: &Request) -> bool {
    let _waits = LockWaits::limit(0);
    let call = request.call;
    let around = call.tables.surroundings();
    let take = || {
        let mut taken = put_lease(request, RowsToInsert::Batch(&request.creates), around)?;
        let skeletons = match request.skeletons.as_slice() {
            [] => 0,
            skeletons => SKELETON_TABLES.of(call).take_skeletons(call.connection, skeletons, false),
        };
        if !request.destroys.is_empty() {
            taken += CLAIM_TABLES.of(call).mark(call.connection, &request.lease, &request.destroys, Locks::Skipped);
        }
        let has_all = taken == request.claims() && skeletons == request.skeletons.len();
        if !has_all {
            return Err(Rejected);
        }
        keep_if_new(request)
    };
    // Without a statement, there is no need to connect SPI.
    subtransaction_on_demand(&CONTENTION_SQLSTATES, || call.bounded_within(around, take)).is_ok()
}

/// The result of taking a batch row by row.
pub enum StepsTaken<'b> {
    Kept,
    /// Another transaction has begun the lease meanwhile, or holds its key.
    LeaseInTheWay,
    InFlight(ClaimStep<'b>),
    /// The claim could not be taken although no conflict was visible: another transaction won the race.
    Changed(ClaimStep<'b>),
}

/// Takes the lease and then the claims one by one in lock order. Waits for other transactions up to the deadline.
pub fn take_step_by_step<'b>(request: &Request<'b>, deadline: Instant) -> StepsTaken<'b> {
    let current: Cell<Option<ClaimStep<'b>>> = Cell::new(None);
    let call = request.call;
    let around = call.tables.surroundings();
    let result = subtransaction(&CONTENTION_SQLSTATES, || {
        let waits = LockWaits::until(deadline);
        call.tables.bound_waits(call.connection);
        put_lease(request, RowsToInsert::Lease, around)?;
        drop(waits);
        for step in request.steps() {
            current.set(Some(step));
            let _waits = LockWaits::until(deadline);
            call.tables.bound_waits(call.connection);
            take_one(request, step, around)?;
        }
        current.set(None);
        keep_if_new(request)?;
        call.tables.free_waits(call.connection, around);
        Ok(())
    });
    match (result, current.get()) {
        (Ok(()), _) => StepsTaken::Kept,
        (Err(_), None) => StepsTaken::LeaseInTheWay,
        (Err(Undone::ByBody(Rejected) | Undone::ByError(Code::ERRCODE_UNIQUE_VIOLATION)), Some(step)) => {
            StepsTaken::Changed(step)
        }
        (Err(Undone::ByError(_)), Some(step)) => StepsTaken::InFlight(step),
    }
}

/// Inserts the lease, alone or with claims under it. Returns the number of claims.
fn put_lease(request: &Request, rows: RowsToInsert, around: Surroundings) -> Result<usize, Rejected> {
    let Request { call, lease, .. } = request;
    let put = CLAIM_TABLES.of(call).take(call.connection, lease, rows, around)?;
    // Only now: the low-water mark relies on the row being in the table while its transaction is open.
    low_water::begun(call, lease.cell_id, lease.made_at);
    Ok(put)
}

fn take_one(request: &Request, step: ClaimStep, around: Surroundings) -> Result<(), Rejected> {
    let Request { call, lease, .. } = request;
    let (claims, connection) = (CLAIM_TABLES.of(call), call.connection);
    let taken = match step {
        ClaimStep::Create(claim) => claims.take(connection, lease, RowsToInsert::Claim(claim), around)?,
        ClaimStep::Reclaim(claim) => {
            let right = Right::of(lease.cell_id, call.catalog.reclaim(claim.bucket.bucket_type));
            kept::reclaim(connection, lease.uuid, claim, right)
        }
        ClaimStep::Skeleton(new) => SKELETON_TABLES.of(call).take_skeletons(connection, &[new], true),
        ClaimStep::Destroy(destroy) => claims.mark(connection, lease, &[destroy], Locks::Awaited),
    };
    if taken == 1 { Ok(()) } else { Err(Rejected) }
}

/// Rejects a lease whose uuid has an outcome, although its row could be inserted. It asks for the latest state after the insert:
/// a fence of the same uuid inserts the same key, so either this check sees the fence, or the fence conflicts with this insert.
fn keep_if_new(request: &Request) -> Result<(), Rejected> {
    let Request { call, lease, .. } = request;
    let is_repeat = request.may_be_repeat && LEASE_TABLES.of(call).has_outcome(call.connection, lease.uuid);
    if is_repeat { Err(Rejected) } else { Ok(()) }
}
