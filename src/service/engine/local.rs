//! The engine of tables that are all in this database: it looks into their indexes to see who is at a row.

use std::collections::HashMap;

use claims_model::lookalike::{Look, NewLook};
use claims_model::{Bucket, Claim, Destroy};
use uuid::Uuid;

use super::{EndedLooks, Engine, Intake, Key};
use crate::pg::spi::Connection;
use crate::pg::xact::Surroundings;
use crate::service::floor;
use crate::store::service::claims::{self, FoundClaim, HeldFor, Settlement};
use crate::store::service::leases::{self, Ending, NewLease};
use crate::store::service::looks::{self, Bearers};

pub struct LocalEngine;

impl Engine for LocalEngine {
    fn take(&self, connection: &Connection, lease: &NewLease, intake: Intake, _: Surroundings) -> usize {
        match intake {
            Intake::Lease(creates) => {
                let put = claims::put_lease(connection, lease, creates);
                floor::begun(lease.cell_id, lease.made_at);
                put
            }
            Intake::Claim(claim) => claims::put(connection, lease, &[claim]),
        }
    }

    fn mark(&self, connection: &Connection, lease: &NewLease, destroys: &[&Destroy]) -> usize {
        claims::mark(connection, lease, destroys)
    }

    fn activate(&self, connection: &Connection, all: &Settlement, buckets: &[&Bucket], held: HeldFor) -> usize {
        claims::activate(connection, all, buckets, held)
    }

    fn remove(&self, connection: &Connection, all: &Settlement, buckets: &[&Bucket], held: HeldFor) -> usize {
        claims::remove(connection, all, buckets, held)
    }

    fn replace(&self, connection: &Connection, all: &Settlement, replaced: &[(Uuid, &Claim)]) -> usize {
        claims::replace(connection, all, replaced)
    }

    fn take_looks(&self, connection: &Connection, new: &[NewLook], heals: bool) -> usize {
        if heals {
            new.iter().filter(|new| new.predecessor.is_none()).for_each(|new| looks::drop_stale(connection, new));
        }
        looks::take(connection, new)
    }

    fn settle_looks(&self, connection: &Connection, ended: &EndedLooks, ending: Ending) {
        match ending {
            Ending::Commit => {
                looks::succeed(connection, &ended.created);
                looks::free(connection, &ended.destroyed);
            }
            Ending::Rollback => {
                looks::free(connection, &ended.created);
                looks::stay(connection, &ended.created);
            }
        }
    }

    fn bearers(&self, connection: &Connection, wanted: &[Look]) -> HashMap<Look, Bearers> {
        looks::standing(connection, wanted)
    }

    fn standing(&self, connection: &Connection, buckets: &[&Bucket]) -> HashMap<Bucket<'static>, FoundClaim> {
        claims::standing_on(connection, buckets)
    }

    fn contended(&self, _: &Connection, key: Key) -> bool {
        match key {
            Key::Lease(lease) => leases::is_in_flight(lease),
            Key::Bucket(bucket) => claims::is_in_flight(bucket),
            Key::Look(look) => looks::is_in_flight(look),
        }
    }

    fn has_outcome(&self, connection: &Connection, lease: Uuid) -> bool {
        leases::has_outcome(connection, lease)
    }

    fn fence(&self, connection: &Connection, lease: Uuid, cell_id: i64) -> bool {
        leases::fence(connection, lease, cell_id)
    }
}
