//! Takes a batch's claims: by one optimistic attempt, and if that fails, by looking for conflicts and further attempts.
//!
//! Without conflicts, only the first statement of [`acquire`] runs. Everything after it is kept off that path.

use std::time::Instant;

use claims_model::{Conflict, Reason};
use pgrx::PgSqlErrorCode as Code;

use super::attempt::{self, StepsTaken};
use super::conflicts::{self, Probed};
use super::errors::LeaseError;
use super::repeat;
use super::request::{BegunLease, ClaimStep, Request};
use crate::kernel::error::{ClaimsError, TablesError};
use crate::kernel::settings;
use crate::service::claims::leases;
use crate::service::{ATTEMPTS, lock_timeout, waiters};
use pg::settings::LockWaits;
use pg::subtransaction::translate_error;
use pg::xact;

/// The result of taking a batch.
pub enum Acquired<'b> {
    Lease(BegunLease<'b>),
    Conflicts(Vec<Conflict<'b>>),
}

/// Takes the lease and all claims of the batch, or returns the conflicts. Locks in this order: the key of the lease, the keys of
/// the created buckets in bucket order, the rows of the destroyed and replaced claims in bucket order. A failed attempt leaves
/// nothing behind.
///
/// A call that `expects_conflicts` looks for them before it writes anything, because a failed attempt costs a transaction id and a flush.
pub fn acquire<'b>(request: &Request<'b>) -> Result<Acquired<'b>, ClaimsError> {
    let may_take = || waiters::is_its_turn(request.call, || request.batch.buckets());
    if !request.expects_conflicts && may_take() && attempt::take_whole(request) {
        return Ok(Acquired::Lease(request.begun()));
    }
    translate_error(&[Code::ERRCODE_LOCK_NOT_AVAILABLE], || TablesError::Locked.into(), || insist(request))
}

/// Answers a batch whose optimistic attempt failed. It checks the lease first, then reports all conflicts together. If there are
/// none it takes the batch row by row.
fn insist<'b>(request: &Request<'b>) -> Result<Acquired<'b>, ClaimsError> {
    let deadline = request.call.began + settings::wait_timeout();
    leases::refuse_locked_tables(deadline)?;
    for attempt in 0..ATTEMPTS {
        let is_last = attempt + 1 == ATTEMPTS;
        let may_wait = deadline > Instant::now();
        let lock_deadline = deadline.max(Instant::now() + lock_timeout(attempt));
        let _waits = LockWaits::until(lock_deadline);
        let (reduced, Probed { existing, is_lease_busy, mut conflicts, .. }) = conflicts::probe(request)?;
        let request = reduced.as_ref().unwrap_or(request);
        if let Some(existing) = existing {
            match repeat::answer(request.call, &request.lease, &existing, deadline)? {
                Some(begun) => return Ok(Acquired::Lease(begun)),
                None => continue,
            }
        }
        if is_lease_busy && !may_wait {
            return Err(LeaseError::Busy.into());
        }
        conflicts::add_queued(request, &mut conflicts);
        if may_wait {
            conflicts::queue_in_flight(request, &mut conflicts);
        }
        let is_permanent = conflicts.values().any(|conflict| conflict.reason != Reason::InFlight);
        if is_permanent || !(conflicts.is_empty() || may_wait) {
            return Ok(Acquired::Conflicts(conflicts::in_order(request, conflicts)));
        }
        // The conflicts of the first attempt may be those that were skipped.
        if reduced.is_some() && conflicts.is_empty() && !request.reclaims_some() && attempt::take_whole(request) {
            return Ok(Acquired::Lease(request.begun()));
        }
        match attempt::take_step_by_step(request, lock_deadline) {
            StepsTaken::Kept => return Ok(Acquired::Lease(request.begun())),
            // The snapshot does not show a claim that has to be destroyed. A create is different: the next probe sees its
            // conflict.
            StepsTaken::Changed(ClaimStep::Destroy(_) | ClaimStep::Reclaim(_)) if xact::uses_transaction_snapshot() => {
                return Err(LeaseError::StaleClaim.into());
            }
            StepsTaken::InFlight(step) | StepsTaken::Changed(step) if is_last => {
                let conflicts = conflicts::with_in_flight(conflicts, step);
                return Ok(Acquired::Conflicts(conflicts::in_order(request, conflicts)));
            }
            StepsTaken::LeaseInTheWay | StepsTaken::InFlight(_) | StepsTaken::Changed(_) => {}
        }
    }
    Err(LeaseError::Busy.into())
}
