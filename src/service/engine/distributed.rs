//! The engine of tables that are spread over the nodes of a Citus cluster: statements only, which name the values
//! that their tables are spread by, and a look into a shard's own index where it matters who is at a row.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;

use claims_model::lookalike::{Look, NewLook};
use claims_model::{Bucket, Claim, Destroy};
use uuid::Uuid;

use super::{EndedLease, EndedLooks, Engine, Intake, Key, bounded, local::LocalEngine};
use crate::pg::spi::Connection;
use crate::pg::xact::{self, Surroundings};
use crate::store::service::claims::{self, FoundClaim, HeldFor, Settlement};
use crate::store::service::distributed::{claims as store, in_flight, keys, leases, looks, nodes};
use crate::store::service::distribution::{bound_waits, free_waits};
use crate::store::service::leases::{Ending, NewLease};
use crate::store::service::looks::Bearers;

pub struct DistributedEngine;

/// How many uuids to draw for one that is beside a bucket: enough for a few nodes.
const DRAWN: usize = 16;

impl Engine for DistributedEngine {
    fn needs_subtransactions(&self) -> bool {
        true
    }

    /// Two round trips, and what it would say an attempt says after a limited wait.
    fn looks_cheaply(&self) -> bool {
        false
    }

    fn bound_waits(&self, connection: &Connection) {
        // A crash must not undo the commit here that has been told to other nodes, whatever the caller's `synchronous_commit` is.
        xact::commit_durably();
        bound_waits(connection);
    }

    fn surroundings(&self) -> Surroundings {
        xact::surroundings()
    }

    fn free_waits(&self, connection: &Connection, around: Surroundings) {
        // Otherwise the nodes forget it with the transaction.
        if around == Surroundings::InBlock {
            free_waits(connection);
        }
    }

    /// One whose node is the bucket's: a transaction on one node needs no second phase.
    fn new_lease(&self, connection: &Connection, bucket: Option<&Bucket>) -> Uuid {
        let drawn: Vec<_> = (0..DRAWN).map(|_| Uuid::now_v7()).collect();
        bucket.and_then(|bucket| keys::beside(connection, bucket, &drawn)).unwrap_or(drawn[0])
    }

    fn take(&self, connection: &Connection, lease: &NewLease, intake: Intake, around: Surroundings) -> usize {
        match intake {
            Intake::Lease(creates) if around == Surroundings::Alone && !creates.is_empty() => {
                nodes::take(connection, lease, creates)
            }
            Intake::Lease(creates) => {
                leases::put_lease(connection, lease);
                store::put(connection, lease, creates)
            }
            Intake::Claim(claim) => store::put(connection, lease, &[claim]),
        }
    }

    fn mark(&self, connection: &Connection, lease: &NewLease, destroys: &[&Destroy]) -> usize {
        claims::mark(connection, lease, destroys)
    }

    fn activate(&self, connection: &Connection, all: &Settlement, buckets: &[&Bucket], held: HeldFor) -> usize {
        nodes::activate(connection, all, buckets, held)
    }

    fn remove(&self, connection: &Connection, all: &Settlement, buckets: &[&Bucket], held: HeldFor) -> usize {
        nodes::remove(connection, all, buckets, held)
    }

    fn replace(&self, connection: &Connection, all: &Settlement, replaced: &[(Uuid, &Claim)]) -> usize {
        replaced.iter().map(|(lease, claim)| store::replace(connection, *lease, claim, all.at)).sum()
    }

    fn take_looks(&self, connection: &Connection, new: &[NewLook], heals: bool) -> usize {
        if heals {
            new.iter().filter(|new| new.predecessor.is_none()).for_each(|new| looks::drop_stale(connection, new));
        }
        new.iter().map(|new| looks::take(connection, new)).sum()
    }

    fn settle_looks(&self, connection: &Connection, ended: &EndedLooks, ending: Ending) {
        match ending {
            Ending::Commit => {
                ended.created.iter().for_each(|look| looks::succeed(connection, look));
                ended.destroyed.iter().for_each(|look| looks::free(connection, look));
            }
            Ending::Rollback => {
                ended.created.iter().for_each(|look| looks::free(connection, look));
                ended.created.iter().for_each(|look| looks::stay(connection, look));
            }
        }
    }

    fn bearers(&self, connection: &Connection, wanted: &[Look]) -> HashMap<Look, Bearers> {
        LocalEngine.bearers(connection, wanted)
    }

    fn standing(&self, connection: &Connection, buckets: &[&Bucket]) -> HashMap<Bucket<'static>, FoundClaim> {
        store::standing_on(connection, buckets)
    }

    fn contended(&self, connection: &Connection, key: Key) -> bool {
        match key {
            Key::Lease(lease) => in_flight::is_lease_in_flight(connection, lease),
            Key::Bucket(bucket) => self.contended_buckets(connection, &[bucket]) == [true],
            Key::Look(look) => in_flight::is_look_in_flight(connection, look),
        }
    }

    fn contended_buckets(&self, connection: &Connection, buckets: &[&Bucket]) -> Vec<bool> {
        let in_flight: HashSet<&Bucket> = keys::by_shard(connection, buckets)
            .into_iter()
            .flat_map(|(shard, part)| in_flight::buckets_in_flight(connection, shard, &part))
            .collect();
        buckets.iter().map(|bucket| in_flight.contains(bucket)).collect()
    }

    fn is_any_contended(&self, connection: &Connection, leases: &[EndedLease]) -> bool {
        let held = leases.iter().map(|lease| &lease.held);
        let buckets: Vec<&Bucket> = held
            .flat_map(|held| {
                let replaced = held.replaces.iter().map(|claim| &claim.bucket);
                held.creates.iter().chain(replaced).chain(held.destroys.iter())
            })
            .collect();
        self.contended_buckets(connection, &buckets).contains(&true)
    }

    fn fence(&self, connection: &Connection, lease: Uuid, cell_id: i64) -> bool {
        let Ok(is_fenced) = bounded(connection, || Ok::<_, Infallible>(leases::fence(connection, lease, cell_id)));
        is_fenced
    }
}
