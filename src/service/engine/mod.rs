//! The seam under the service: what of a lease depends on how its tables are stored. Above it stand the rules of a lease,
//! below it the statements; what passes through is data, in and out.

mod distributed;
mod local;
mod on_node;
mod shard;

use std::collections::HashMap;

use claims_model::lookalike::{Look, NewLook};
use claims_model::{Bucket, Claim, Destroy, StoredBatch};
use pgrx::PgSqlErrorCode as Code;
use uuid::Uuid;

use crate::distribution::{self, Whereabouts};
use crate::pg::spi::{Connection, View};
use crate::pg::subtransaction::{Undone, subtransaction};
use crate::pg::xact::Surroundings;
use crate::store::service::claims::{FoundClaim, HeldFor, Settlement};
use crate::store::service::leases::{self, Ending, NewLease};
use crate::store::service::looks::Bearers;

/// Errors by which another transaction shows that it is in the way. An operation that meets one raises it: whoever calls
/// does so in a subtransaction.
pub const CONTENTION_SQLSTATES: [Code; 3] =
    [Code::ERRCODE_UNIQUE_VIOLATION, Code::ERRCODE_LOCK_NOT_AVAILABLE, Code::ERRCODE_T_R_DEADLOCK_DETECTED];

/// What is put in at once.
#[derive(Clone, Copy)]
pub enum Intake<'i> {
    /// A lease, and claims that it creates.
    Lease(&'i [&'i Claim<'i>]),
    /// One more claim under a lease that is in already.
    Claim(&'i Claim<'i>),
}

/// A key that several transactions may want.
#[derive(Clone, Copy)]
pub enum Key<'k> {
    Lease(Uuid),
    Bucket(&'k Bucket<'k>),
    Look(Look),
}

/// An ended lease and the claims that it held, by its payload.
pub struct EndedLease<'p> {
    pub uuid: Uuid,
    pub held: StoredBatch<'p>,
}

/// The looks of names that ended leases have created and destroyed, of types that mind them.
pub struct EndedLooks<'p> {
    pub created: Vec<(Look, &'p Bucket<'p>)>,
    pub destroyed: Vec<(Look, &'p Bucket<'p>)>,
}

/// How leases and claims are stored. Nothing here decides: every operation says what it found or did. Waits for locks are
/// as the caller has limited them.
pub trait Engine {
    /// Puts in a lease and claims under it, LEASE_CREATING, in the order given; how many claims. A key that is there is a
    /// unique violation.
    fn take(&self, connection: &Connection, lease: &NewLease, intake: Intake, around: Surroundings) -> usize;

    /// Marks claims of the lease's cell LEASE_DESTROYING that are ACTIVE, in the order given within a type; of how many it
    /// is what the destroys mean.
    fn mark(&self, connection: &Connection, lease: &NewLease, destroys: &[&Destroy]) -> usize;

    /// Takes the looks of new names; how many. A look that another name has, and does not give up in the same batch, is a unique
    /// violation, or is not counted. `heals`: looks of names that nobody has are no hindrance.
    fn take_looks(&self, connection: &Connection, looks: &[NewLook], heals: bool) -> usize;

    /// Makes claims ACTIVE that ended leases hold in a state; how many they were.
    fn activate(&self, connection: &Connection, all: &Settlement, buckets: &[&Bucket], held: HeldFor) -> usize;

    /// Deletes claims that ended leases hold in a state; how many they were.
    fn remove(&self, connection: &Connection, all: &Settlement, buckets: &[&Bucket], held: HeldFor) -> usize;

    /// Makes other claims of those that ended leases were to replace, in place; how many they were.
    fn replace(&self, connection: &Connection, all: &Settlement, claims: &[(Uuid, &Claim)]) -> usize;

    /// Settles the looks of leases whose claims are settled.
    fn settle_looks(&self, connection: &Connection, looks: &EndedLooks, ending: Ending);

    /// The names that have looks right now. Locks nothing.
    fn bearers(&self, connection: &Connection, looks: &[Look]) -> HashMap<Look, Bearers>;

    /// What is committed on buckets right now. Locks nothing.
    fn standing(&self, connection: &Connection, buckets: &[&Bucket]) -> HashMap<Bucket<'static>, FoundClaim>;

    /// Whether another open transaction has written or locked the row of a key, also one that nobody else can see yet.
    fn contended(&self, connection: &Connection, key: Key) -> bool;

    /// The same of many buckets, in the order given.
    fn contended_buckets(&self, connection: &Connection, buckets: &[&Bucket]) -> Vec<bool> {
        buckets.iter().map(|bucket| self.contended(connection, Key::Bucket(bucket))).collect()
    }

    /// A uuid for a lease that is to have a bucket among others.
    fn new_lease(&self, _: &Connection, _: Option<&Bucket>) -> Uuid {
        Uuid::now_v7()
    }

    /// Whether a look at a key costs less than an attempt that has to wait for it.
    fn looks_cheaply(&self) -> bool {
        true
    }

    /// Whether several statements are one only within a subtransaction.
    fn needs_subtransactions(&self) -> bool {
        false
    }

    /// How the call stands to its transaction, where that matters. Before a subtransaction.
    fn surroundings(&self) -> Surroundings {
        Surroundings::Alone
    }

    /// Has statements wait for locks everywhere as long as they may here. At the beginning of a subtransaction.
    fn bound_waits(&self, _: &Connection) {}

    /// Has later statements of the caller wait as long as the caller's may. At the end of a subtransaction that is kept.
    fn free_waits(&self, _: &Connection, _: Surroundings) {}

    /// Whether another open transaction is at a claim of a lease: one that has committed on the node of the lease, and not yet on
    /// that of the claim.
    fn is_any_contended(&self, _: &Connection, _: &[EndedLease]) -> bool {
        false
    }

    /// Whether a lease has an outcome right now, whatever the isolation level, or by this transaction.
    fn has_outcome(&self, connection: &Connection, lease: Uuid) -> bool {
        leases::known(connection, &[lease], View::Latest).iter().any(|known| known.outcome.is_some())
    }

    /// Writes the outcome of a lease that is not known, so that it can never begin. `false`: by now it is known.
    fn fence(&self, connection: &Connection, lease: Uuid, cell_id: i64) -> bool;
}

/// Runs `body`, of an act that no subtransaction of its own undoes in parts; its waits for locks on other nodes are limited as they are
/// here.
pub fn bounded<T, E>(connection: &Connection, body: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let engine = current();
    if !engine.needs_subtransactions() {
        return body();
    }
    let around = engine.surroundings();
    subtransaction(&[], || bounded_within(connection, around, body)).map_err(|undone| match undone {
        Undone::ByBody(error) => error,
        Undone::ByError(code) => unreachable!("{code:?} is raised again"),
    })
}

/// The same within a subtransaction of the caller's.
pub fn bounded_within<T, E>(
    connection: &Connection,
    around: Surroundings,
    body: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let engine = current();
    engine.bound_waits(connection);
    let value = body()?;
    engine.free_waits(connection, around);
    Ok(value)
}

/// The engine of this database.
pub fn current() -> &'static dyn Engine {
    match distribution::whereabouts() {
        Whereabouts::Here => &local::LocalEngine,
        Whereabouts::Spread => &distributed::DistributedEngine,
    }
}
