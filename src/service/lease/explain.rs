//! Why a batch could not be had, or, after all, that it can.
//!
//! The way without conflicts never comes here. Nothing that is only reported gets locked: two sessions that look at the
//! same taken name must not see each other's look as a conflict.

use std::cell::Cell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use claims_model::conflict::reason_for;
use claims_model::{Bucket, Conflict, Reason};
use pgrx::PgSqlErrorCode as Code;
use uuid::Uuid;

use super::acquire::{Acquired, IN_THE_WAY, NotKept, Request, Step, keep_if_new};
use super::key::{self, Key};
use crate::error::ClaimsError;
use crate::pg::clock::Moment;
use crate::pg::settings::LockWaits;
use crate::pg::spi::{Connection, View};
use crate::pg::subtransaction::{Undone, subtransaction};
use crate::pg::xact;
use crate::settings;
use crate::store::service::claims;
use crate::store::service::leases::{self, Ending, Known};

/// How often to look and take again before saying that somebody else is in the way: the world may change in between.
const ATTEMPTS: u32 = 4;

/// Milliseconds to wait for a lock after a look that found nobody in the way: 1, 8, 64, 512. What is waited for is then a
/// table being extended, under load for longer, or somebody who came after the look and is seen by the next one.
fn patience(attempt: u32) -> Duration {
    Duration::from_millis(1 << (3 * attempt))
}

/// Answers a batch whose optimistic attempt failed: the lease first, then all conflicts together.
pub fn explain<'b>(connection: &Connection, request: &Request<'b>) -> Result<Acquired<'b>, ClaimsError> {
    let deadline = Instant::now() + Duration::from_millis(settings::wait_timeout().unsigned_abs());
    leases::refuse_locked_tables(deadline)?;
    for attempt in 0..ATTEMPTS {
        let is_last = attempt + 1 == ATTEMPTS;
        let may_wait = deadline > Instant::now();
        let patient_until = deadline.max(Instant::now() + patience(attempt));
        let _waits = LockWaits::until(patient_until);
        if let Some(known) = leases::known(connection, &[request.lease.uuid], View::Latest).pop() {
            match repeat(connection, request, &known, deadline)? {
                Some(lease) => return Ok(Acquired::Lease(lease)),
                None => continue,
            }
        }
        if request.may_be_repeat && !may_wait && leases::is_in_flight(request.lease.uuid) {
            return Err(ClaimsError::LeaseBusy);
        }
        let conflicts = conflicts(connection, request);
        // The first call may have ended since we asked: then these are the lease's own claims.
        let is_repeat = || !leases::known(connection, &[request.lease.uuid], View::Latest).is_empty();
        if !conflicts.is_empty() && request.may_be_repeat && is_repeat() {
            continue;
        }
        let is_hopeless = conflicts.values().any(|conflict| conflict.reason != Reason::InFlight);
        if is_hopeless || !(conflicts.is_empty() || may_wait) {
            return Ok(answer(request, conflicts));
        }
        match take_step_by_step(connection, request, patient_until) {
            Taken::Kept => return Ok(Acquired::Lease(request.lease.uuid)),
            // A claim that its snapshot does not show. What is to be created, though, the next look sees.
            Taken::Changed(Step::Destroy(_)) if xact::keeps_one_snapshot() => return Err(ClaimsError::StaleClaim),
            Taken::InFlight(step) | Taken::Changed(step) if is_last => {
                return Ok(answer(request, with_in_flight(conflicts, step)));
            }
            Taken::LeaseInTheWay | Taken::InFlight(_) | Taken::Changed(_) => {}
        }
    }
    Err(ClaimsError::LeaseBusy)
}

/// A uuid that is known: the same request again is answered as the first time, anything else is refused. `None`: it
/// was settled while we looked.
fn repeat(
    connection: &Connection,
    request: &Request,
    known: &Known,
    deadline: Instant,
) -> Result<Option<Uuid>, ClaimsError> {
    let lease = request.lease.uuid;
    if known.cell_id != request.lease.cell_id {
        return Err(ClaimsError::ForeignLease { lease });
    }
    refuse_stale(connection, known)?;
    if known.outcome == Some(Ending::Rollback) {
        return Err(ClaimsError::RolledBack { lease });
    }
    if known.digest.as_deref() != Some(&request.lease.digest) {
        return Err(ClaimsError::OtherRequest { lease });
    }
    if known.outcome == Some(Ending::Commit) {
        return Ok(Some(lease));
    }
    let _waits = LockWaits::until(deadline);
    match key::look(connection, lease, known.cell_id) {
        Key::Outstanding => Ok(Some(lease)),
        Key::Busy => Err(ClaimsError::LeaseBusy),
        Key::Free => Ok(None),
    }
}

/// An outcome that the transaction's own snapshot does not show was settled behind its back: serialization failure.
pub fn refuse_stale(connection: &Connection, known: &Known) -> Result<(), ClaimsError> {
    let settled_unseen = known.outcome.is_some()
        && xact::keeps_one_snapshot()
        && !leases::known(connection, &[known.uuid], View::Statement).contains(known);
    if settled_unseen { Err(ClaimsError::StaleLease { lease: known.uuid }) } else { Ok(()) }
}

type Conflicts<'b> = HashMap<&'b Bucket<'b>, Conflict<'b>>;

/// The conflicts as of now, by bucket.
fn conflicts<'b>(connection: &Connection, request: &Request<'b>) -> Conflicts<'b> {
    let steps: Vec<_> = request.steps().collect();
    let buckets: Vec<_> = steps.iter().map(|step| step.bucket()).collect();
    let found = claims::standing_on(connection, &buckets);
    let now = Moment::now();
    let conflict = |step: &Step<'b>| {
        let found = found.get(step.bucket());
        let reason = match claims::is_in_flight(step.bucket()) {
            true => Reason::InFlight,
            false => reason_for(step.op(), request.lease.cell_id, found.map(|found| found.standing))?,
        };
        let conflict = Conflict {
            op: step.op(),
            bucket: step.bucket().clone(),
            reason,
            holder_cell_id: found.map(|found| found.standing.holder_cell_id),
            lease_age_seconds: found.and_then(|found| found.lease_made_at).map(|made_at| made_at.seconds_until(now)),
        };
        Some((step.bucket(), conflict))
    };
    steps.iter().filter_map(conflict).collect()
}

/// What came of taking a batch row by row.
enum Taken<'b> {
    Kept,
    /// Another transaction has made the lease in between, or is at it.
    LeaseInTheWay,
    InFlight(Step<'b>),
    /// Not to be had although nothing was to be seen: somebody was faster in between.
    Changed(Step<'b>),
}

/// Takes the lease and then the claims one by one in lock order, waiting for other transactions up to the deadline.
fn take_step_by_step<'b>(connection: &Connection, request: &Request<'b>, deadline: Instant) -> Taken<'b> {
    let current: Cell<Option<Step<'b>>> = Cell::new(None);
    let result = subtransaction(&IN_THE_WAY, || {
        let waits = LockWaits::until(deadline);
        claims::take_lease(connection, &request.lease);
        drop(waits);
        for step in request.steps() {
            current.set(Some(step));
            let _waits = LockWaits::until(deadline);
            take_one(connection, request, step)?;
        }
        current.set(None);
        keep_if_new(connection, request)
    });
    match (result, current.get()) {
        (Ok(()), _) => Taken::Kept,
        (Err(_), None) => Taken::LeaseInTheWay,
        (Err(Undone::ByBody(NotKept) | Undone::ByError(Code::ERRCODE_UNIQUE_VIOLATION)), Some(step)) => {
            Taken::Changed(step)
        }
        (Err(Undone::ByError(_)), Some(step)) => Taken::InFlight(step),
    }
}

fn take_one(connection: &Connection, request: &Request, step: Step) -> Result<(), NotKept> {
    let taken = match step {
        Step::Create(claim) => claims::create(connection, &request.lease, &[claim]),
        Step::Destroy(bucket) => claims::mark(connection, &request.lease, &[bucket]),
    };
    if taken == 1 { Ok(()) } else { Err(NotKept) }
}

fn with_in_flight<'b>(mut conflicts: Conflicts<'b>, step: Step<'b>) -> Conflicts<'b> {
    let unseen = Conflict {
        op: step.op(),
        bucket: step.bucket().clone(),
        reason: Reason::InFlight,
        holder_cell_id: None,
        lease_age_seconds: None,
    };
    conflicts.entry(step.bucket()).and_modify(|conflict| conflict.reason = Reason::InFlight).or_insert(unseen);
    conflicts
}

/// The conflicts in the order of the request.
fn answer<'b>(request: &Request<'b>, mut conflicts: Conflicts<'b>) -> Acquired<'b> {
    let creates = request.batch.creates.iter().map(|claim| &claim.bucket);
    let buckets = creates.chain(request.batch.destroys.iter());
    Acquired::Conflicts(buckets.filter_map(|bucket| conflicts.remove(bucket)).collect())
}
