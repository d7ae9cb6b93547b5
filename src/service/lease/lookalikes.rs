//! Conflicts with names that look alike, of types that refuse them.

use std::collections::HashMap;

use claims_model::lookalike::{Look, NewLook};
use claims_model::{Bucket, Conflict, NOBODY, Op, Reason};

use super::request::{Conflicts, Request};
use crate::pg::clock::Moment;
use crate::pg::spi::Connection;
use crate::service::engine::{self, Key};
use crate::store::service::claims::FoundClaim;
use crate::store::service::looks::Bearers;

/// The conflicts of names whose looks are not free.
pub fn look<'b>(connection: &Connection, request: &Request<'b>) -> Conflicts<'b> {
    let mut conflicts = Conflicts::new();
    let looks: Vec<_> = request.looks.iter().map(|new| new.look).collect();
    let bearers = engine::current().bearers(connection, &looks);
    let names: Vec<_> =
        bearers.values().flat_map(|all| [Some(&all.bearer), all.successor.as_ref()]).flatten().collect();
    let standing = engine::current().standing(connection, &names);
    let mut first: HashMap<Look, &NewLook> = HashMap::new();
    for new in &request.looks {
        let twin = first.get(&new.look).copied();
        first.entry(new.look).or_insert(new);
        let in_the_way = match twin {
            // Two of one batch.
            Some(twin) => Some(Way {
                reason: Reason::Confusable,
                similar_to: twin.bucket.value.clone().into_owned(),
                holder_cell_id: Some(request.lease.cell_id),
                lease_made_at: None,
            }),
            None if engine::current().contended(connection, Key::Look(new.look)) => Some(Way {
                reason: Reason::InFlight,
                similar_to: String::new(),
                holder_cell_id: None,
                lease_made_at: None,
            }),
            None => bearers.get(&new.look).and_then(|bearers| rival(new, bearers, &standing)),
        };
        if let Some(way) = in_the_way {
            conflicts.insert(new.bucket, conflict(new, way));
        }
    }
    conflicts
}

/// What is in the way of a look.
struct Way {
    reason: Reason,
    similar_to: String,
    holder_cell_id: Option<i64>,
    lease_made_at: Option<Moment>,
}

/// The claim that has a look; `None`: it is given up by the same batch, or nobody has claimed the name.
fn rival(new: &NewLook, bearers: &Bearers, standing: &HashMap<Bucket<'static>, FoundClaim>) -> Option<Way> {
    if new.predecessor == Some(&bearers.bearer) && bearers.successor.is_none() {
        return None;
    }
    let names = [Some(&bearers.bearer), bearers.successor.as_ref()].into_iter().flatten();
    let others = names.filter(|name| *name != new.bucket);
    let (name, found) = others.filter_map(|name| Some((name, standing.get(name)?))).next()?;
    Some(Way {
        // One that a lease holds may be gone when that has ended.
        reason: if found.active { Reason::Confusable } else { Reason::Leased },
        similar_to: name.value.clone().into_owned(),
        holder_cell_id: Some(found.holder_cell_id).filter(|holder| *holder != NOBODY),
        lease_made_at: found.lease_made_at,
    })
}

fn conflict<'b>(new: &NewLook<'b>, way: Way) -> Conflict<'b> {
    Conflict {
        op: Op::Create,
        bucket: new.bucket.clone(),
        reason: way.reason,
        holder_cell_id: way.holder_cell_id,
        lease_age_seconds: way.lease_made_at.map(|made_at| made_at.seconds_until(Moment::now())),
        similar_to: Some(way.similar_to).filter(|name| !name.is_empty()),
    }
}
