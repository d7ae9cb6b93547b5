//! Taking a batch's claims: one optimistic attempt, and where that fails the reasons, or more attempts.
//!
//! The way without conflicts is the first line of [`acquire`]; all that follows is kept off it.

use std::time::{Duration, Instant};

use claims_model::{Conflict, Reason};
use pgrx::PgSqlErrorCode as Code;

use super::attempt::{self, StepsTaken};
use super::obstacles::{self, Obstacles};
use super::repeat;
use super::request::{Begun, ClaimStep, Request};
use crate::error::ClaimsError;
use crate::pg::settings::LockWaits;
use crate::pg::spi::Connection;
use crate::pg::subtransaction::translate_error;
use crate::pg::xact;
use crate::settings;
use crate::store::service::leases;

/// How an attempt to take a batch ends.
pub enum Acquired<'b> {
    Lease(Begun),
    Conflicts(Vec<Conflict<'b>>),
}

/// Takes the lease and all claims of the batch, or says why not. Locks, in this order: the key of the lease, the keys of
/// the created buckets in bucket order, the rows of the destroyed and replaced claims in bucket order. Nothing of a
/// failed attempt stays.
///
/// `began`: when the call began, from which on it waits for others as long as it may.
pub fn acquire<'b>(
    connection: &Connection,
    request: &Request<'b>,
    began: Instant,
) -> Result<Acquired<'b>, ClaimsError> {
    if attempt::take_whole(connection, request) {
        return Ok(Acquired::Lease(request.begun()));
    }
    let locked = || ClaimsError::TableLocked;
    translate_error(Code::ERRCODE_LOCK_NOT_AVAILABLE, locked, || insist(connection, request, began))
}

/// How often to look and take again before saying that somebody else is in the way: the world may change in between.
const ATTEMPTS: u32 = 4;

/// Milliseconds to wait for a lock after a look that found nobody in the way: 1, 8, 64, 512. What is waited for is then a
/// table being extended, under load for longer, or somebody who came after the look and is seen by the next one.
fn patience(attempt: u32) -> Duration {
    Duration::from_millis(1 << (3 * attempt))
}

/// Answers a batch whose optimistic attempt failed: the lease first, then all conflicts together; and takes it row by row
/// where nothing speaks against it.
fn insist<'b>(connection: &Connection, request: &Request<'b>, began: Instant) -> Result<Acquired<'b>, ClaimsError> {
    let deadline = began + Duration::from_millis(settings::wait_timeout().unsigned_abs());
    leases::refuse_locked_tables(deadline)?;
    for attempt in 0..ATTEMPTS {
        let is_last = attempt + 1 == ATTEMPTS;
        let may_wait = deadline > Instant::now();
        let patient_until = deadline.max(Instant::now() + patience(attempt));
        let _waits = LockWaits::until(patient_until);
        let Obstacles { known, is_lease_busy, conflicts } = obstacles::look(connection, request);
        if let Some(known) = known {
            match repeat::answer(connection, &request.lease, &known, deadline)? {
                Some(begun) => return Ok(Acquired::Lease(begun)),
                None => continue,
            }
        }
        if is_lease_busy && !may_wait {
            return Err(ClaimsError::LeaseBusy);
        }
        let is_hopeless = conflicts.values().any(|conflict| conflict.reason != Reason::InFlight);
        if is_hopeless || !(conflicts.is_empty() || may_wait) {
            return Ok(Acquired::Conflicts(obstacles::in_order(request, conflicts)));
        }
        match attempt::take_step_by_step(connection, request, patient_until) {
            StepsTaken::Kept => return Ok(Acquired::Lease(request.begun())),
            // A claim that its snapshot does not show. What is to be created, though, the next look sees.
            StepsTaken::Changed(ClaimStep::Destroy(_)) if xact::keeps_one_snapshot() => {
                return Err(ClaimsError::StaleClaim);
            }
            StepsTaken::InFlight(step) | StepsTaken::Changed(step) if is_last => {
                let conflicts = obstacles::with_in_flight(conflicts, step);
                return Ok(Acquired::Conflicts(obstacles::in_order(request, conflicts)));
            }
            StepsTaken::LeaseInTheWay | StepsTaken::InFlight(_) | StepsTaken::Changed(_) => {}
        }
    }
    Err(ClaimsError::LeaseBusy)
}
