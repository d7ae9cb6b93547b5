//! The tables that begins and settlements write: leases, claims, and skeletons of names.

use std::collections::{HashMap, HashSet};

use claims_model::attribution::Attribution;
use claims_model::lookalike::{NewSkeleton, Skeleton};
use claims_model::{Bucket, Claim, Destroy, StoredBatch};
use pgrx::PgSqlErrorCode as Code;
use uuid::Uuid;

use super::buckets::StoredOwner;
use super::leases::{EndedRow, Ending, LeaseEnding, NewLease};
use super::rows::{EndedLeases, FoundClaim, HeldFor, ToKeep};
use super::skeletons::{Bearing, SkeletonChange};
use crate::kernel::tables::{Door, Local};
use pg::clock::Moment;
use pg::spi::Connection;
use pg::xact::Surroundings;

/// Errors by which a conflict with another transaction shows. An operation raises them, so its caller must use a subtransaction.
pub const CONTENTION_SQLSTATES: [Code; 3] =
    [Code::ERRCODE_UNIQUE_VIOLATION, Code::ERRCODE_LOCK_NOT_AVAILABLE, Code::ERRCODE_T_R_DEADLOCK_DETECTED];

/// The rows to insert together.
#[derive(Clone, Copy)]
pub enum RowsToInsert<'i> {
    /// A lease, and the claims that it creates.
    Batch(&'i [&'i Claim<'i>]),
    /// A lease alone.
    Lease,
    /// A claim under a lease that was inserted before.
    Claim(&'i Claim<'i>),
}

/// A row was not inserted because another row has its key, perhaps one of a transaction that is still open. Some of the other rows may have
/// been inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyExists;

/// Another open transaction has locked or written the row of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseInUse;

/// A key for which transactions may conflict.
#[derive(Clone, Copy)]
pub enum Key<'k> {
    Lease(Uuid),
    Bucket(&'k Bucket<'k>),
    Skeleton(Skeleton),
}

/// Whether a call waits for rows that other transactions have locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locks {
    /// Passes over them, where the tables can do that.
    Skipped,
    /// Waits up to the lock timeout.
    Awaited,
}

/// An ended lease and the claims that it held, from its payload.
pub struct EndedLease<'p> {
    pub uuid: Uuid,
    pub held: StoredBatch<'p>,
    pub attribution: Attribution,
}

/// The skeletons of names that ended leases have created and destroyed, for types that refuse confusable names.
pub struct EndedSkeletons<'p> {
    pub created: Vec<(Skeleton, &'p Bucket<'p>)>,
    pub destroyed: Vec<(Skeleton, &'p Bucket<'p>)>,
}

/// Outstanding leases, and the outcomes of those that have ended.
pub trait LeaseTables: Sync {
    /// Returns a uuid for a new lease that will hold a bucket.
    fn new_lease(&self, _: &Connection, _: Option<&Bucket>) -> Uuid {
        Uuid::now_v7()
    }

    /// Ends those of the cell's leases that are outstanding: deletes their rows and inserts their outcomes. If another transaction has
    /// locked one of the rows, waits up to the lock timeout, or, if the call may not wait, ends none that follow.
    fn end(&self, connection: &Connection, leases: &[Uuid], ending: &LeaseEnding) -> Result<Vec<EndedRow>, LeaseInUse>;

    /// Locks those of the cell's leases that no other transaction has locked, and returns them.
    fn lock_free(&self, connection: &Connection, leases: &[Uuid], cell_id: i64) -> Vec<Uuid>;

    /// Returns whether a lease has an outcome: one that is committed now, under every isolation level, or one of this
    /// transaction.
    fn has_outcome(&self, connection: &Connection, lease: Uuid) -> bool;

    /// Inserts the outcome of an unknown lease, so that it can never begin. Returns `false` if the lease is known by now.
    fn fence(&self, connection: &Connection, lease: Uuid, cell_id: i64) -> bool;

    /// Deletes up to `limit` outcomes older than `retention` seconds. Returns how many.
    fn purge_outcomes(&self, connection: &Connection, retention: i64, limit: i64) -> usize;
}

/// Where the leases are.
pub static LEASE_TABLES: Door<dyn LeaseTables> = Door::local(&Local);

/// Claims that leases create, replace and destroy.
pub trait ClaimTables: Sync {
    /// Inserts a lease, or claims under it, as LEASE_CREATING and in their order. Returns the number of claims. An existing key is
    /// a unique violation or `KeyExists`. A batch waits for nobody, where the tables can do that; other rows wait up to the lock timeout
    /// for transactions that are inserting the key.
    fn take(
        &self,
        connection: &Connection,
        lease: &NewLease,
        rows: RowsToInsert,
        around: Surroundings,
    ) -> Result<usize, KeyExists>;

    /// Adds ACTIVE claims of a cell, which no lease holds, where their names are free. Returns the buckets added. Waits up to the lock timeout
    /// for transactions that are adding one of the names. Where the tables cannot pass over an existing name, it is a unique violation.
    /// The claims are in bucket order.
    fn add_new(
        &self,
        connection: &Connection,
        cell_id: i64,
        claims: &[&Claim],
        around: Surroundings,
    ) -> HashSet<Bucket<'static>>;

    /// Adds ACTIVE claims of a cell, which no lease holds. Returns their number. An existing name is a unique violation.
    fn add(&self, connection: &Connection, cell_id: i64, claims: &[&Claim], around: Surroundings) -> usize;

    /// Divides buckets into parts, so that the claims on one part are in one shard. Returns the positions of the buckets of each part.
    fn parts(&self, _: &Connection, buckets: &[&Bucket]) -> Vec<Vec<usize>> {
        vec![(0..buckets.len()).collect()]
    }

    /// Creates one claim of a cell at once, for the calling transaction and without a lease. Waits for no other transaction, and needs no
    /// subtransaction: returns false, and leaves nothing behind, if the claim exists or the tables cannot do that.
    fn create_now(&self, _cell_id: i64, _at: Moment, _claim: &Claim) -> bool {
        false
    }

    /// Creates, replaces and destroys claims of a cell at once, for the calling transaction and without a lease. Waits for nobody. `changes`
    /// has the cell's existing claims, each with the claim that replaces it; claims of others, and those that another transaction has locked
    /// or changed, are skipped. Returns the number of claims; after a smaller one than wanted the caller rolls back. `None`: the tables
    /// cannot do that.
    fn change_now(
        &self,
        _cell_id: i64,
        _at: Moment,
        _creates: &[&Claim],
        _changes: &[(&Destroy, Option<&Claim>)],
    ) -> Option<Result<usize, KeyExists>> {
        None
    }

    /// Marks the cell's ACTIVE claims among the destroys, and skips the others. Returns how many of the marked claims have the
    /// subject and the source of their destroy. The destroys are in bucket order.
    fn mark(&self, connection: &Connection, lease: &NewLease, destroys: &[&Destroy], locks: Locks) -> usize;

    /// Makes claims ACTIVE that ended leases hold with a status. Returns their number.
    fn activate(&self, connection: &Connection, all: &EndedLeases, buckets: &[&Bucket], held: HeldFor) -> usize;

    /// Deletes claims that ended leases hold with a status. Returns their number.
    fn remove(&self, connection: &Connection, all: &EndedLeases, buckets: &[&Bucket], held: HeldFor) -> usize;

    /// Keeps back the names of claims that ended leases hold. Returns their number.
    fn keep_back(&self, connection: &Connection, all: &EndedLeases, names: &ToKeep) -> usize;

    /// Replaces claims of ended leases in place. Returns their number.
    fn replace(&self, connection: &Connection, all: &EndedLeases, claims: &[(Uuid, &Claim)]) -> usize;

    /// Returns the claims that are committed on buckets now. Takes no locks.
    fn standing(&self, connection: &Connection, buckets: &[&Bucket]) -> HashMap<Bucket<'static>, FoundClaim>;

    /// Returns the subjects and sources of the claims on buckets, as this transaction sees them now, and none of names that are kept back. Takes
    /// no locks.
    fn owners(&self, connection: &Connection, buckets: &[&Bucket]) -> HashMap<Bucket<'static>, StoredOwner> {
        let owner = |found: FoundClaim| StoredOwner { subject: found.subject, source: found.source };
        let found = self.standing(connection, buckets).into_iter().filter(|(_, found)| found.kept.is_none());
        found.map(|(bucket, found)| (bucket, owner(found))).collect()
    }
}

/// Where the claims are.
pub static CLAIM_TABLES: Door<dyn ClaimTables> = Door::local(&Local);

/// Probes for other open transactions at the rows of a key.
pub trait KeyTables: Sync {
    /// Returns whether another open transaction has written or locked the row of a key, even if no snapshot shows the row yet.
    fn contended(&self, connection: &Connection, key: Key) -> bool;

    /// Returns for each bucket, in their order, whether it is contended.
    fn contended_buckets(&self, connection: &Connection, buckets: &[&Bucket]) -> Vec<bool> {
        buckets.iter().map(|bucket| self.contended(connection, Key::Bucket(bucket))).collect()
    }

    /// Returns whether another open transaction has written or locked a claim of a lease. It may have committed on the node of
    /// the lease, and not yet on that of the claim.
    fn is_any_contended(&self, _: &Connection, _: &[EndedLease]) -> bool {
        false
    }
}

/// Where the keys are.
pub static KEY_TABLES: Door<dyn KeyTables> = Door::local(&Local);

/// Skeletons of names, for bucket types that refuse confusable names.
pub trait SkeletonTables: Sync {
    /// Takes the skeletons of new names. Returns how many. A skeleton that another claim has and does not give up in the same
    /// batch is a unique violation or is not counted. A skeleton of a reserved name is not counted. With `heals`, it frees
    /// skeletons of names that nobody has claimed, and waits for names that are being reserved or unreserved.
    fn take_skeletons(&self, connection: &Connection, skeletons: &[NewSkeleton], heals: bool) -> usize;

    /// Inserts the skeletons of existing claims, or of reserved names. Two claims with one skeleton are a unique violation. A
    /// claim and reserved names may share one.
    fn put_skeletons(&self, connection: &Connection, skeletons: &[(Skeleton, &Bucket)], bearing: Bearing);

    /// Makes one change to each of several skeletons.
    fn change_skeletons(&self, connection: &Connection, change: SkeletonChange, skeletons: &[(Skeleton, &Bucket)]);

    /// Settles the skeletons of leases whose claims are settled.
    fn settle_skeletons(&self, connection: &Connection, ended: &EndedSkeletons, ending: Ending) {
        match ending {
            Ending::Commit => {
                self.change_skeletons(connection, SkeletonChange::PassOn, &ended.created);
                self.change_skeletons(connection, SkeletonChange::Free, &ended.destroyed);
            }
            Ending::Rollback => {
                self.change_skeletons(connection, SkeletonChange::Free, &ended.created);
                self.change_skeletons(connection, SkeletonChange::Keep, &ended.created);
            }
        }
    }
}

/// Where the skeletons are.
pub static SKELETON_TABLES: Door<dyn SkeletonTables> = Door::local(&Local);
