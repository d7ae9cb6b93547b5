//! The engine of tables that are all in this database: it looks into their indexes to see who is at a row.

use std::collections::HashMap;

use claims_model::lookalike::{Look, NewLook};
use claims_model::{Bucket, Destroy};
use uuid::Uuid;

use super::{EndedLease, EndedLooks, Engine, Intake, Key};
use crate::pg::clock::Moment;
use crate::pg::spi::Connection;
use crate::pg::xact::Surroundings;
use crate::service::floor;
use crate::store::service::claims::{self, FoundClaim, HeldFor};
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

    fn settle(
        &self,
        connection: &Connection,
        leases: &[EndedLease],
        ending: Ending,
        at: Moment,
        _: Surroundings,
    ) -> usize {
        let uuids: Vec<_> = leases.iter().map(|lease| lease.uuid).collect();
        let created: Vec<_> = leases.iter().flat_map(|lease| &lease.held.creates).collect();
        let replaced = leases.iter().flat_map(|lease| lease.held.replaces.iter().map(|claim| (lease.uuid, claim)));
        let mut destroyed: Vec<_> = leases.iter().flat_map(|lease| &lease.held.destroys).collect();
        match ending {
            Ending::Commit => {
                claims::activate(connection, &uuids, &created, HeldFor::Creating, at)
                    + claims::replace(connection, &replaced.collect::<Vec<_>>(), at)
                    + claims::remove(connection, &uuids, &destroyed, HeldFor::Destroying)
            }
            Ending::Rollback => {
                destroyed.extend(replaced.map(|(_, claim)| &claim.bucket));
                claims::remove(connection, &uuids, &created, HeldFor::Creating)
                    + claims::activate(connection, &uuids, &destroyed, HeldFor::Destroying, at)
            }
        }
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
