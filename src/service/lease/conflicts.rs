//! Finds the conflicts of a batch: of its lease, and of each bucket. It locks nothing: two sessions that only probe the same
//! taken name must not conflict with each other.

use std::collections::HashSet;

use claims_model::conflict::{ExistingClaim, reason_for};
use claims_model::{Bucket, Conflict, NOBODY, Op, Reason};

use super::lookalikes;
use super::request::{ClaimStep, Conflicts, Request};
use crate::kernel::error::ClaimsError;
use crate::service::claims::{CLAIM_TABLES, ExistingLease, FoundClaim, KEY_TABLES, Key, leases};
use crate::service::quarantine::asking;
use crate::service::waiters;
use pg::clock::Moment;
use pg::spi::View;

/// The conflicts of a batch, as seen by one probe of the indexes.
pub struct Probed<'b> {
    /// The lease that has this uuid already, outstanding or ended.
    pub existing: Option<ExistingLease>,
    /// Whether another open transaction holds the key of this uuid.
    pub is_lease_busy: bool,
    pub conflicts: Conflicts<'b>,
    /// The names of its creates that are kept back and that it can have.
    pub reclaims: HashSet<&'b Bucket<'b>>,
}

/// Probes a batch until it has no more destroys that it may skip. Returns the batch without them, and with the names that it reclaims, or
/// `None` if that is the same batch, and its conflicts.
pub fn probe<'b>(request: &Request<'b>) -> Result<(Option<Request<'b>>, Probed<'b>), ClaimsError> {
    let mut reduced = None;
    loop {
        let request = reduced.as_ref().unwrap_or(request);
        let probed = probe_once(request);
        let without = if probed.existing.is_some() { None } else { request.without_missing(&probed.conflicts)? };
        match without {
            Some(fewer) => reduced = Some(fewer),
            None => {
                let with_reclaims = request.with_reclaims(&probed.reclaims);
                return Ok((with_reclaims.or(reduced), probed));
            }
        }
    }
}

/// Probes the batch's buckets, and its lease last. If the first call of the same request has ended by then, the lease exists, and
/// the claims that were seen belong to it. A uuid that no other call can have is not probed.
fn probe_once<'b>(request: &Request<'b>) -> Probed<'b> {
    let (keys, connection) = (KEY_TABLES.of(request.call), request.call.connection);
    let steps: Vec<_> = request.steps().filter(|step| !matches!(step, ClaimStep::Skeleton(_))).collect();
    let buckets: Vec<_> = steps.iter().map(|step| step.bucket()).collect();
    let found = CLAIM_TABLES.of(request.call).standing(connection, &buckets);
    let contended = keys.contended_buckets(connection, &buckets);
    let alike = if request.skeletons.is_empty() { Conflicts::new() } else { lookalikes::conflicts(request) };
    let lease = request.lease.uuid;
    let is_lease_busy = request.may_be_repeat && keys.contended(connection, Key::Lease(lease));
    let existing = match request.may_be_repeat {
        true => leases::existing(connection, &[lease], View::Latest).pop(),
        false => None,
    };
    let now = Moment::now();
    let conflict = |(step, is_contended): (&ClaimStep<'b>, bool)| {
        let found = found.get(step.bucket());
        let reason = match is_contended {
            true => Reason::InFlight,
            false => {
                reason_for(step.op(), request.lease.cell_id, found.map(|found| standing(request, *step, found, now)))?
            }
        };
        let conflict = Conflict {
            holder_cell_id: found.map(|found| found.holder_cell_id).filter(|holder| *holder != NOBODY),
            // A name that is kept back tells nothing of those who have had it, or have it again soon.
            lease_age_seconds: found
                .filter(|found| found.kept.is_none() || reason.retryable())
                .and_then(|found| found.lease_made_at)
                .map(|made_at| made_at.seconds_until(now)),
            available_at_us: found
                .and_then(|found| found.kept)
                .filter(|_| reason == Reason::Quarantined)
                .map(|kept| kept.available_at_us),
            ..Conflict::new(step.op(), step.bucket().clone(), reason)
        };
        Some((step.bucket(), conflict))
    };
    let mut conflicts: Conflicts = steps.iter().zip(contended).filter_map(conflict).collect();
    // A conflict of the name itself says more than one of its skeleton.
    for (bucket, conflict) in alike {
        conflicts.entry(bucket).or_insert(conflict);
    }
    let is_reclaim = |step: &&ClaimStep<'b>| {
        step.op() == Op::Create && found.get(step.bucket()).is_some_and(|found| found.kept.is_some())
    };
    let reclaims = steps.iter().filter(is_reclaim).map(|step| step.bucket()).collect();
    Probed { existing, is_lease_busy, conflicts, reclaims }
}

fn standing(request: &Request, step: ClaimStep, found: &FoundClaim, now: Moment) -> ExistingClaim {
    let cell_id = request.lease.cell_id;
    match step {
        ClaimStep::Create(claim) | ClaimStep::Reclaim(claim) => found.for_create(&asking(request.call, claim, now)),
        ClaimStep::Skeleton(_) => found.for_destroy(cell_id, true),
        ClaimStep::Destroy(destroy) => found.for_destroy(cell_id, destroy.means(&found.subject, &found.source)),
    }
}

/// Adds a conflict for each bucket that is free and for which others wait who come before this call. Returns the earliest time until
/// which one of these buckets is kept for another call.
pub fn add_queued<'b>(request: &Request<'b>, conflicts: &mut Conflicts<'b>) -> Option<i64> {
    let free = request.operations().filter(|(_, bucket)| !conflicts.contains_key(bucket));
    let before = waiters::before(request.call, free.map(|(_, bucket)| bucket));
    let kept_until = before.iter().filter_map(|(_, before)| before.kept_until).min();
    for (bucket, before) in before {
        let Some((op, _)) = request.operations().find(|(_, of)| *of == bucket) else { continue };
        let queued = Conflict::new(op, bucket.clone(), Reason::Queued);
        conflicts.insert(bucket, Conflict { waiting: Some(before.waiters), ..queued });
    }
    kept_until
}

/// Turns `in_flight` into `queued` if others who come before this call wait for the bucket. The call must not wait for the row, because it
/// would take the bucket before them when the other transaction ends.
pub fn queue_in_flight(request: &Request, conflicts: &mut Conflicts) {
    for conflict in conflicts.values_mut().filter(|conflict| conflict.reason == Reason::InFlight) {
        let waiters = waiters::count_before(request.call, &conflict.bucket);
        if waiters > 0 {
            (conflict.reason, conflict.waiting) = (Reason::Queued, Some(waiters));
        }
    }
}

/// Adds a conflict that blocked an attempt although the probe did not see it.
pub fn with_in_flight<'b>(mut conflicts: Conflicts<'b>, step: ClaimStep<'b>) -> Conflicts<'b> {
    let unseen = Conflict::new(step.op(), step.bucket().clone(), Reason::InFlight);
    conflicts.entry(step.bucket()).and_modify(|conflict| conflict.reason = Reason::InFlight).or_insert(unseen);
    conflicts
}

/// Returns the conflicts in the order of the request.
pub fn in_order<'b>(request: &Request<'b>, mut conflicts: Conflicts<'b>) -> Vec<Conflict<'b>> {
    request.batch.buckets().filter_map(|bucket| conflicts.remove(bucket)).collect()
}
