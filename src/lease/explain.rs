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
use crate::store::claims;
use crate::store::leases::{self, Ending, Known};

/// How often to look and take again before saying that somebody else is in the way. The first time-out of a lock may be
/// another one's, that of a table being extended for example, and the world may change between looking and taking.
const ATTEMPTS: usize = 3;

/// Milliseconds to wait for a lease row whose uuid was made here. Nobody else can hold it, so what is waited for is only
/// the moment in which another session extends the table.
const TABLE_EXTENSION: i64 = 1000;

/// Answers a batch whose optimistic attempt failed: the lease first, then all conflicts together.
pub fn explain<'b>(connection: &Connection, request: &Request<'b>) -> Result<Acquired<'b>, ClaimsError> {
    let deadline = Instant::now() + Duration::from_millis(settings::wait_timeout().unsigned_abs());
    for attempt in 1..=ATTEMPTS {
        if let Some(known) = leases::known(connection, &[request.lease.uuid], View::Latest).pop() {
            match repeat(connection, request, &known, deadline)? {
                Some(lease) => return Ok(Acquired::Lease(lease)),
                None => continue,
            }
        }
        let conflicts = visible_conflicts(connection, request);
        match take_step_by_step(connection, request, &conflicts, deadline) {
            Taken::Kept => return Ok(Acquired::Lease(request.lease.uuid)),
            Taken::Probed => return Ok(answer(request, conflicts)),
            Taken::LeaseBusy if attempt == ATTEMPTS => return Err(ClaimsError::LeaseBusy),
            Taken::InFlight(step) if attempt > 1 => return Ok(answer(request, with_in_flight(conflicts, step))),
            Taken::Changed(_) if xact::keeps_one_snapshot() => return Err(ClaimsError::StaleClaim),
            Taken::Changed(step) if attempt == ATTEMPTS => {
                return Ok(answer(request, with_in_flight(conflicts, step)));
            }
            Taken::LeaseBusy | Taken::LeaseChanged | Taken::InFlight(_) | Taken::Changed(_) => {}
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

/// The conflicts that can be seen from here, by bucket.
fn visible_conflicts<'b>(connection: &Connection, request: &Request<'b>) -> Conflicts<'b> {
    let steps: Vec<_> = request.steps().collect();
    let buckets: Vec<_> = steps.iter().map(|step| step.bucket()).collect();
    let found = claims::standing_on(connection, &buckets);
    let now = Moment::now();
    let conflict = |step: &Step<'b>| {
        let found = found.get(step.bucket());
        let reason = reason_for(step.op(), request.lease.cell_id, found.map(|found| found.standing))?;
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
    /// Everything but the visible conflicts could be had; nothing was kept.
    Probed,
    LeaseBusy,
    /// Another transaction made the lease in between.
    LeaseChanged,
    InFlight(Step<'b>),
    /// Not to be had although nothing was to be seen: somebody was faster in between.
    Changed(Step<'b>),
}

/// Takes the lease and then, one by one in lock order, what is not in visible conflict. A row that another transaction
/// holds is waited for, up to the deadline where the batch could still succeed, and for a millisecond otherwise.
fn take_step_by_step<'b>(
    connection: &Connection,
    request: &Request<'b>,
    conflicts: &Conflicts<'b>,
    deadline: Instant,
) -> Taken<'b> {
    let hopeless = conflicts.values().any(|conflict| conflict.reason != Reason::InFlight);
    let may_wait = !hopeless && deadline > Instant::now();
    let limit_waits = || if may_wait { LockWaits::until(deadline) } else { LockWaits::limit(0) };
    let current: Cell<Option<Step<'b>>> = Cell::new(None);
    let result = subtransaction(&IN_THE_WAY, || {
        let waits = if request.may_be_repeat { limit_waits() } else { LockWaits::limit(TABLE_EXTENSION) };
        claims::take_lease(connection, &request.lease);
        drop(waits);
        for step in request.steps().filter(|step| may_wait || !conflicts.contains_key(step.bucket())) {
            current.set(Some(step));
            let _waits = limit_waits();
            take_one(connection, request, step)?;
        }
        current.set(None);
        if may_wait || conflicts.is_empty() { keep_if_new(connection, request) } else { Err(NotKept) }
    });
    match (result, current.get()) {
        (Ok(()), _) => Taken::Kept,
        (Err(Undone::ByError(Code::ERRCODE_UNIQUE_VIOLATION)), None) => Taken::LeaseChanged,
        (Err(Undone::ByError(_)), None) => Taken::LeaseBusy,
        (Err(Undone::ByError(Code::ERRCODE_UNIQUE_VIOLATION)), Some(step)) => Taken::Changed(step),
        (Err(Undone::ByError(_)), Some(step)) => Taken::InFlight(step),
        (Err(Undone::ByBody(NotKept)), Some(step)) => Taken::Changed(step),
        (Err(Undone::ByBody(NotKept)), None) if conflicts.is_empty() || may_wait => Taken::LeaseChanged,
        (Err(Undone::ByBody(NotKept)), None) => Taken::Probed,
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
