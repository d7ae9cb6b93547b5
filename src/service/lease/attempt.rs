//! One attempt to take a batch, whole or row by row. Nothing of a failed one stays.

use std::cell::Cell;
use std::time::Instant;

use pgrx::PgSqlErrorCode as Code;

use super::request::{ClaimStep, Request};
use crate::pg::settings::LockWaits;
use crate::pg::spi::Connection;
use crate::pg::subtransaction::{Undone, subtransaction};
use crate::pg::xact::Surroundings;
use crate::service::engine::{self, CONTENTION_SQLSTATES, Intake};

/// The attempt saw that it is not to be kept.
pub struct Rejected;

/// The optimistic attempt: everything at once, without waiting. `false`: not to be had like this.
pub fn take_whole(connection: &Connection, request: &Request) -> bool {
    let _waits = LockWaits::limit(0);
    let engine = engine::current();
    let around = engine.surroundings();
    let take = || {
        let mut taken = engine.take(connection, &request.lease, Intake::Lease(&request.creates), around);
        let looks = match request.looks.as_slice() {
            [] => 0,
            looks => engine.take_looks(connection, looks, false),
        };
        if !request.destroys.is_empty() {
            taken += engine.mark(connection, &request.lease, &request.destroys);
        }
        let has_all = taken == request.batch.claims() && looks == request.looks.len();
        if !has_all {
            return Err(Rejected);
        }
        keep_if_new(connection, request)
    };
    subtransaction(&CONTENTION_SQLSTATES, || engine::bounded_within(connection, around, take)).is_ok()
}

/// What came of taking a batch row by row.
pub enum StepsTaken<'b> {
    Kept,
    /// Another transaction has made the lease in between, or is at it.
    LeaseInTheWay,
    InFlight(ClaimStep<'b>),
    /// Not to be had although nothing was to be seen: somebody was faster in between.
    Changed(ClaimStep<'b>),
}

/// Takes the lease and then the claims one by one in lock order, waiting for other transactions up to the deadline.
pub fn take_step_by_step<'b>(connection: &Connection, request: &Request<'b>, deadline: Instant) -> StepsTaken<'b> {
    let current: Cell<Option<ClaimStep<'b>>> = Cell::new(None);
    let around = engine::current().surroundings();
    let result = subtransaction(&CONTENTION_SQLSTATES, || {
        let waits = LockWaits::until(deadline);
        engine::current().bound_waits(connection);
        engine::current().take(connection, &request.lease, Intake::Lease(&[]), around);
        drop(waits);
        for step in request.steps() {
            current.set(Some(step));
            let _waits = LockWaits::until(deadline);
            engine::current().bound_waits(connection);
            take_one(connection, request, step, around)?;
        }
        current.set(None);
        keep_if_new(connection, request)?;
        engine::current().free_waits(connection, around);
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

fn take_one(connection: &Connection, request: &Request, step: ClaimStep, around: Surroundings) -> Result<(), Rejected> {
    let taken = match step {
        ClaimStep::Create(claim) => engine::current().take(connection, &request.lease, Intake::Claim(claim), around),
        ClaimStep::Look(new) => engine::current().take_looks(connection, &[new], true),
        ClaimStep::Destroy(destroy) => engine::current().mark(connection, &request.lease, &[destroy]),
    };
    if taken == 1 { Ok(()) } else { Err(Rejected) }
}

/// A lease whose uuid has an outcome is not new, also if its row could be put in. Asked after the row is in and of the
/// latest state: a fence of the same uuid passes through the same key, so it has either been seen here or will see us.
fn keep_if_new(connection: &Connection, request: &Request) -> Result<(), Rejected> {
    let is_repeat = request.may_be_repeat && engine::current().has_outcome(connection, request.lease.uuid);
    if is_repeat { Err(Rejected) } else { Ok(()) }
}
