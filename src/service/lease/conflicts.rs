//! Why a batch cannot be had, bucket by bucket. Nothing that is only reported gets locked: two sessions that look at the
//! same taken name must not see each other's look as a conflict.

use std::collections::HashMap;

use claims_model::conflict::{StandingClaim, reason_for};
use claims_model::{Bucket, Conflict, Reason};

use super::request::{ClaimStep, Request};
use crate::pg::clock::Moment;
use crate::pg::spi::Connection;
use crate::service::engine::{self, Key};
use crate::store::service::claims::Found;

pub type Conflicts<'b> = HashMap<&'b Bucket<'b>, Conflict<'b>>;

/// The conflicts as of now, by bucket.
pub fn look<'b>(connection: &Connection, request: &Request<'b>) -> Conflicts<'b> {
    let steps: Vec<_> = request.steps().collect();
    let buckets: Vec<_> = steps.iter().map(|step| step.bucket()).collect();
    let found = engine::current().standing(connection, &buckets);
    let now = Moment::now();
    let conflict = |step: &ClaimStep<'b>| {
        let found = found.get(step.bucket());
        let reason = match engine::current().contended(Key::Bucket(step.bucket())) {
            true => Reason::InFlight,
            false => reason_for(step.op(), request.lease.cell_id, found.map(|found| standing(*step, found)))?,
        };
        let conflict = Conflict {
            op: step.op(),
            bucket: step.bucket().clone(),
            reason,
            holder_cell_id: found.map(|found| found.holder_cell_id),
            lease_age_seconds: found.and_then(|found| found.lease_made_at).map(|made_at| made_at.seconds_until(now)),
        };
        Some((step.bucket(), conflict))
    };
    steps.iter().filter_map(conflict).collect()
}

fn standing(step: ClaimStep, found: &Found) -> StandingClaim {
    let is_meant = match step {
        ClaimStep::Create(_) => true,
        ClaimStep::Destroy(destroy) => destroy.means(&found.subject, &found.source),
    };
    StandingClaim { holder_cell_id: found.holder_cell_id, active: found.active, is_meant }
}

/// The same, with one more that was met and not seen.
pub fn with_in_flight<'b>(mut conflicts: Conflicts<'b>, step: ClaimStep<'b>) -> Conflicts<'b> {
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
pub fn in_order<'b>(request: &Request<'b>, mut conflicts: Conflicts<'b>) -> Vec<Conflict<'b>> {
    request.batch.buckets().filter_map(|bucket| conflicts.remove(bucket)).collect()
}
