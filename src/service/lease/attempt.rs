//! Attempts to take a batch, as a whole or row by row. A failed attempt leaves nothing behind.

use std::cell::Cell;
use std::time::Instant;

use pgrx::PgSqlErrorCode as Code;

use super::request::{ClaimStep, Request};
use crate::service::low_water;
use crate::tables::{self, CONTENTION_SQLSTATES, KeyExists, Locks, RowsToInsert};
use pg::settings::LockWaits;
use pg::spi::Connection;
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
pub fn take_whole(connection: &Connection, request: &Request) -> bool {
    let _waits = LockWaits::limit(0);
    let tables = request.tables;
    let around = tables.surroundings();
    let take = || {
        let mut taken = put_lease(connection, request, RowsToInsert::Batch(&request.creates), around)?;
        let skeletons = match request.skeletons.as_slice() {
            [] => 0,
            skeletons => tables.take_skeletons(connection, skeletons, false),
        };
        if !request.destroys.is_empty() {
            taken += tables.mark(connection, &request.lease, &request.destroys, Locks::Skipped);
        }
        let has_all = taken == request.claims() && skeletons == request.skeletons.len();
        if !has_all {
            return Err(Rejected);
        }
        keep_if_new(connection, request)
    };
    // Without a statement, there is no need to connect SPI.
    subtransaction_on_demand(&CONTENTION_SQLSTATES, || tables::bounded_within(tables, connection, around, take)).is_ok()
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
pub fn take_step_by_step<'b>(connection: &Connection, request: &Request<'b>, deadline: Instant) -> StepsTaken<'b> {
    let current: Cell<Option<ClaimStep<'b>>> = Cell::new(None);
    let tables = request.tables;
    let around = tables.surroundings();
    let result = subtransaction(&CONTENTION_SQLSTATES, || {
        let waits = LockWaits::until(deadline);
        tables.bound_waits(connection);
        put_lease(connection, request, RowsToInsert::Lease, around)?;
        drop(waits);
        for step in request.steps() {
            current.set(Some(step));
            let _waits = LockWaits::until(deadline);
            tables.bound_waits(connection);
            take_one(connection, request, step, around)?;
        }
        current.set(None);
        keep_if_new(connection, request)?;
        tables.free_waits(connection, around);
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
fn put_lease(
    connection: &Connection,
    request: &Request,
    rows: RowsToInsert,
    around: Surroundings,
) -> Result<usize, Rejected> {
    let put = request.tables.take(connection, &request.lease, rows, around)?;
    // Only now: the low-water mark relies on the row being in the table while its transaction is open.
    low_water::begun(request.tables, request.lease.cell_id, request.lease.made_at);
    Ok(put)
}

fn take_one(connection: &Connection, request: &Request, step: ClaimStep, around: Surroundings) -> Result<(), Rejected> {
    let taken = match step {
        ClaimStep::Create(claim) => {
            request.tables.take(connection, &request.lease, RowsToInsert::Claim(claim), around)?
        }
        ClaimStep::Skeleton(new) => request.tables.take_skeletons(connection, &[new], true),
        ClaimStep::Destroy(destroy) => request.tables.mark(connection, &request.lease, &[destroy], Locks::Awaited),
    };
    if taken == 1 { Ok(()) } else { Err(Rejected) }
}

/// Rejects a lease whose uuid has an outcome, although its row could be inserted. It asks for the latest state after the insert:
/// a fence of the same uuid inserts the same key, so either this check sees the fence, or the fence conflicts with this insert.
fn keep_if_new(connection: &Connection, request: &Request) -> Result<(), Rejected> {
    let is_repeat = request.may_be_repeat && request.tables.has_outcome(connection, request.lease.uuid);
    if is_repeat { Err(Rejected) } else { Ok(()) }
}
