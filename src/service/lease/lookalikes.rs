//! Conflicts with confusable names, for types that refuse them.

use std::collections::HashMap;

use claims_model::lookalike::{NewSkeleton, Skeleton};
use claims_model::{Bucket, Conflict, NOBODY, Op, Reason};

use super::request::{Conflicts, Request};
use crate::service::claims::{Bearers, CLAIM_TABLES, FoundClaim, KEY_TABLES, Key, skeletons};
use pg::clock::Moment;

/// Returns the conflicts of names whose skeletons are not free.
pub fn conflicts<'b>(request: &Request<'b>) -> Conflicts<'b> {
    let connection = request.call.connection;
    let mut conflicts = Conflicts::new();
    let skeletons: Vec<_> = request.skeletons.iter().map(|new| new.skeleton).collect();
    let bearers = skeletons::bearers(connection, &skeletons);
    let names: Vec<_> = bearers.values().flat_map(Bearers::names).collect();
    let standing = CLAIM_TABLES.of(request.call).standing(connection, &names);
    let mut first: HashMap<Skeleton, &NewSkeleton> = HashMap::new();
    for new in &request.skeletons {
        let twin = first.get(&new.skeleton).copied();
        first.entry(new.skeleton).or_insert(new);
        let rival = match twin {
            // Two names of the same batch.
            Some(twin) => Some(Rival {
                reason: Reason::Confusable,
                similar_to: twin.bucket.value.clone().into_owned(),
                holder_cell_id: Some(request.lease.cell_id),
                lease_made_at: None,
            }),
            None if KEY_TABLES.of(request.call).contended(connection, Key::Skeleton(new.skeleton)) => Some(Rival {
                reason: Reason::InFlight,
                similar_to: String::new(),
                holder_cell_id: None,
                lease_made_at: None,
            }),
            None => bearers.get(&new.skeleton).and_then(|bearers| rival_of(new, bearers, &standing)),
        };
        if let Some(rival) = rival {
            conflicts.insert(new.bucket, conflict(new, rival));
        }
    }
    conflicts
}

/// A name that conflicts with a skeleton.
struct Rival {
    reason: Reason,
    similar_to: String,
    holder_cell_id: Option<i64>,
    lease_made_at: Option<Moment>,
}

/// Returns the reserved name or the claim that has a skeleton. `None` if the same batch gives it up, or no claim has it.
fn rival_of(new: &NewSkeleton, bearers: &Bearers, standing: &HashMap<Bucket<'static>, FoundClaim>) -> Option<Rival> {
    let is_passed_on =
        new.predecessor.is_some() && new.predecessor == bearers.bearer.as_ref() && bearers.successor.is_none();
    let now = Moment::now();
    // The name itself is among the reserved ones while it is kept back.
    let others =
        bearers.names().filter(|name| *name != new.bucket && !(is_passed_on && Some(*name) == new.predecessor));
    let mut standing = others.filter_map(|name| Some((name, standing.get(name)?)));
    let (name, found) = standing.find(|(_, found)| !found.is_over(now))?;
    Some(Rival {
        // A lease holds the claim, so it may be gone when the lease has ended. A name that is kept back stays, whether a lease reclaims it or not.
        reason: if found.active || found.kept.is_some() { Reason::Confusable } else { Reason::Leased },
        similar_to: name.value.clone().into_owned(),
        holder_cell_id: Some(found.holder_cell_id).filter(|holder| *holder != NOBODY),
        lease_made_at: found.lease_made_at,
    })
}

fn conflict<'b>(new: &NewSkeleton<'b>, rival: Rival) -> Conflict<'b> {
    Conflict {
        holder_cell_id: rival.holder_cell_id,
        lease_age_seconds: rival.lease_made_at.map(|made_at| made_at.seconds_until(Moment::now())),
        similar_to: Some(rival.similar_to).filter(|name| !name.is_empty()),
        ..Conflict::new(Op::Create, new.bucket.clone(), rival.reason)
    }
}
