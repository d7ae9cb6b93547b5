//! Why a batch cannot be had: what stands in the way of its lease, and of each bucket. Nothing that is only reported gets
//! locked: two sessions that look at the same taken name must not see each other's look as a conflict.

use claims_model::conflict::{StandingClaim, reason_for};
use claims_model::{Conflict, NOBODY, Reason};

use super::lookalikes;
use super::request::{ClaimStep, Conflicts, Request};
use crate::pg::clock::Moment;
use crate::pg::spi::{Connection, View};
use crate::service::engine::{self, Key};
use crate::store::service::claims::FoundClaim;
use crate::store::service::leases::{self, KnownLease};

/// What stands in the way of a batch right now.
pub struct Obstacles<'b> {
    /// Its uuid is that of a lease that began or ended before.
    pub known: Option<KnownLease>,
    /// Another open transaction is at that uuid.
    pub is_lease_busy: bool,
    pub conflicts: Conflicts<'b>,
}

/// Looks at all of them. At the lease last: where the first call of the same request has ended by then, it is known, and the
/// claims that were seen are its own. A uuid that nobody else can have is not looked for.
pub fn look<'b>(connection: &Connection, request: &Request<'b>) -> Obstacles<'b> {
    let engine = engine::current();
    let steps: Vec<_> = request.steps().filter(|step| !matches!(step, ClaimStep::Look(_))).collect();
    let buckets: Vec<_> = steps.iter().map(|step| step.bucket()).collect();
    let found = engine.standing(connection, &buckets);
    let contended = engine.contended_buckets(connection, &buckets);
    let alike = if request.looks.is_empty() { Conflicts::new() } else { lookalikes::look(connection, request) };
    let lease = request.lease.uuid;
    let is_lease_busy = request.may_be_repeat && engine.contended(connection, Key::Lease(lease));
    let known = match request.may_be_repeat {
        true => leases::known(connection, &[lease], View::Latest).pop(),
        false => None,
    };
    let now = Moment::now();
    let conflict = |(step, is_contended): (&ClaimStep<'b>, bool)| {
        let found = found.get(step.bucket());
        let reason = match is_contended {
            true => Reason::InFlight,
            false => reason_for(
                step.op(),
                request.lease.cell_id,
                found.map(|found| standing(request.lease.cell_id, *step, found)),
            )?,
        };
        let conflict = Conflict {
            op: step.op(),
            bucket: step.bucket().clone(),
            reason,
            holder_cell_id: found.map(|found| found.holder_cell_id).filter(|holder| *holder != NOBODY),
            lease_age_seconds: found.and_then(|found| found.lease_made_at).map(|made_at| made_at.seconds_until(now)),
            similar_to: None,
        };
        Some((step.bucket(), conflict))
    };
    let mut conflicts: Conflicts = steps.iter().zip(contended).filter_map(conflict).collect();
    // What is in the way of the name itself says more.
    for (bucket, conflict) in alike {
        conflicts.entry(bucket).or_insert(conflict);
    }
    Obstacles { known, is_lease_busy, conflicts }
}

fn standing(cell_id: i64, step: ClaimStep, found: &FoundClaim) -> StandingClaim {
    let is_meant = match step {
        ClaimStep::Create(_) | ClaimStep::Look(_) => true,
        ClaimStep::Destroy(destroy) => destroy.means(&found.subject, &found.source),
    };
    let in_transfer = found.is_in_transfer_of(cell_id);
    StandingClaim { holder_cell_id: found.holder_cell_id, active: found.active, is_meant, in_transfer }
}

/// The same, with one more that was met and not seen.
pub fn with_in_flight<'b>(mut conflicts: Conflicts<'b>, step: ClaimStep<'b>) -> Conflicts<'b> {
    let unseen = Conflict {
        op: step.op(),
        bucket: step.bucket().clone(),
        reason: Reason::InFlight,
        holder_cell_id: None,
        lease_age_seconds: None,
        similar_to: None,
    };
    conflicts.entry(step.bucket()).and_modify(|conflict| conflict.reason = Reason::InFlight).or_insert(unseen);
    conflicts
}

/// The conflicts in the order of the request.
pub fn in_order<'b>(request: &Request<'b>, mut conflicts: Conflicts<'b>) -> Vec<Conflict<'b>> {
    request.batch.buckets().filter_map(|bucket| conflicts.remove(bucket)).collect()
}
