//! The trait through which the rules of the service reach its tables.

use std::collections::HashMap;
use std::ops::ControlFlow;

use claims_model::cursor::ClaimCursor;
use claims_model::epoch::Epoch;
use claims_model::feed::ChangeCursor;
use claims_model::lookalike::{NewSkeleton, Skeleton};
use claims_model::{Bucket, Claim, Destroy, StoredBatch};
use pgrx::PgSqlErrorCode as Code;
use pgrx::datum::Interval;
use pgrx::pg_sys::Oid;
use uuid::Uuid;

use super::rows::audit::AuditRow;
use super::rows::cells::Registration;
use super::rows::claims::{ClaimPart, EndedLeases, FoundClaim, HeldFor, StoredClaim};
use super::rows::feed::{BucketChange, ChangeSet, StoredSet};
use super::rows::leases::{EndedRow, Ending, LeaseEnding, NewLease};
use super::rows::names::{Renamed, Renaming, Reserved, ReservedBy, Stored};
use super::rows::skeletons::{Bearing, SkeletonChange};
use super::rows::transfers::{OpenWriters, Transfer, TransferStep};
use super::rows::verify::{Actual, DigestRow, Part};
use crate::error::{ClaimsError, DistributionError};
use crate::pg::clock::Moment;
use crate::pg::spi::Connection;
use crate::pg::xact::Surroundings;

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

/// Another row has the key of one that was to be inserted, perhaps one of a transaction that is still open. Some of the rows may have
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
}

/// The skeletons of names that ended leases have created and destroyed, for types that refuse confusable names.
pub struct EndedSkeletons<'p> {
    pub created: Vec<(Skeleton, &'p Bucket<'p>)>,
    pub destroyed: Vec<(Skeleton, &'p Bucket<'p>)>,
}

/// Outstanding leases, and the outcomes of those that have ended.
pub trait LeaseTables {
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

/// Claims that leases create, replace and destroy.
pub trait ClaimTables {
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

    /// Replaces claims of ended leases in place. Returns their number.
    fn replace(&self, connection: &Connection, all: &EndedLeases, claims: &[(Uuid, &Claim)]) -> usize;

    /// Returns the claims that are committed on buckets now. Takes no locks.
    fn standing(&self, connection: &Connection, buckets: &[&Bucket]) -> HashMap<Bucket<'static>, FoundClaim>;
}

/// Probes for other open transactions at the rows of a key.
pub trait KeyTables {
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

/// Skeletons of names, for bucket types that refuse confusable names.
pub trait SkeletonTables {
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

/// Claims as callers read them.
pub trait RecordTables {
    /// Returns the claim on a bucket, in the snapshot of the calling query.
    fn claim(&self, bucket_type: i32, bucket_value: &str) -> Option<StoredClaim>;

    /// Returns the claims on buckets, in the snapshot of the calling query and in the order of the buckets.
    fn claims(&self, connection: &Connection, buckets: &[Bucket]) -> Vec<StoredClaim>;

    /// Returns a page of a cell's claims.
    fn claim_page(&self, connection: &Connection, cell_id: i64, part: &ClaimPart, limit: i64) -> Vec<StoredClaim>;

    /// Returns the source types of a cell's claims that are not below `first`.
    fn source_types_from(&self, connection: &Connection, cell_id: i64, first: i32) -> Vec<i32>;
}

/// Claims as verification reads them.
pub trait VerificationTables {
    /// Returns the claims that are committed on buckets now. A claim is recent if it changed within an interval.
    fn actual_on(
        &self,
        connection: &Connection,
        buckets: &[&Bucket],
        recent: Interval,
    ) -> HashMap<Bucket<'static>, Actual>;

    /// Returns the claims of a part that are committed now, at most `limit`.
    fn actual_in(&self, connection: &Connection, part: &Part, recent: Interval, limit: usize) -> Vec<Actual>;

    /// Passes the claims of a part to `each`, in the snapshot of the calling query and in no order.
    fn each_in(&self, connection: &Connection, part: &Part, each: &mut dyn FnMut(DigestRow));
}

/// Names that a new profile changes, and reserved names.
pub trait NameTables {
    /// Locks out transactions that write names whose profile can change, until this transaction ends. `bucket_type` is the type
    /// to change.
    fn lock_names(&self, connection: &Connection, bucket_type: i32);

    /// Passes all names of a type to `each`, as committed now, in no order.
    fn each_name(&self, connection: &Connection, bucket_type: i32, each: &mut dyn FnMut(Stored));

    /// Renames claims and reserved names. With `tells`, records the changes in the change feed if the same statement can. Returns
    /// the changes that the caller must still record.
    fn rename(&self, connection: &Connection, bucket_type: i32, renamings: &[Renaming], tells: bool) -> Vec<Renamed>;

    /// Reserves names of one type. A claimed name is a unique violation.
    fn reserve(&self, connection: &Connection, bucket_type: i32, names: &[&Reserved], reserved_by: &ReservedBy);
}

/// Transfers, and the claims that they hold.
pub trait TransferTables {
    /// Locks the row of a transfer until the transaction ends, without waiting. Returns `None` if there is none.
    fn lock_transfer(&self, connection: &Connection, uuid: Uuid) -> Option<Transfer>;

    /// Locks the rows of cells against being removed, without waiting. Returns how many there are.
    fn lock_cells(&self, connection: &Connection, cells: [i64; 2]) -> usize;

    /// Runs `write`, which writes to the tables of transfers.
    fn write_transfers(&self, write: &mut dyn FnMut());

    /// Runs one step of marking the claims of the transfer's subjects. Does not wait for other transactions.
    fn mark_held(&self, connection: &Connection, transfer: &Transfer, after: Option<&ClaimCursor>) -> TransferStep;

    /// Runs one step of making the claims that the transfer holds ACTIVE, at the cell where they are.
    fn release_held(&self, connection: &Connection, transfer: &Transfer, after: Option<&ClaimCursor>) -> TransferStep;

    /// Returns the transactions of other sessions that have changed claims or modes, on all nodes.
    fn open_writers(&self, connection: &Connection, cell_id: i64) -> Result<OpenWriters, ClaimsError>;

    /// Records in the change feed that all claims of a transfer have moved from one cell to the other.
    fn tell_moved(&self, connection: &Connection, transfer: &Transfer, from: i64, to: i64);
}

/// The change feed for writers.
pub trait FeedTables {
    /// Records changes, in their order. Call it within [`bounded`].
    fn tell(&self, connection: &Connection, sets: &[ChangeSet], at: Moment);

    /// Returns the changes of one bucket, oldest first.
    fn changes_of(&self, connection: &Connection, bucket_type: i32, bucket_value: &str) -> Vec<BucketChange>;

    /// Deletes up to `limit` rows from the beginning of the feed that were made by `before`. Returns the numbers of rows and of
    /// changes. Call it within [`bounded`].
    fn purge_changes(&self, connection: &Connection, before: Moment, limit: i64) -> (i64, i64);
}

/// The change feed for readers.
pub trait FeedPages {
    /// Passes the rows of the feed after a cursor, or from its beginning, to `each`, with the cursor that they follow: rows with
    /// changes of one type, or all. The caller wants about `limit` changes.
    fn each_change(
        &self,
        connection: &Connection,
        after: Option<ChangeCursor>,
        wanted: Wanted,
        each: &mut dyn FnMut(&ChangeCursor, StoredSet) -> ControlFlow<()>,
    ) -> Result<(), ClaimsError>;

    /// Returns the cursor of the last change that readers can get.
    fn newest_change(&self, connection: &Connection) -> Result<ChangeCursor, ClaimsError>;
}

/// The audit log.
pub trait AuditTables {
    /// Inserts rows of events in this transaction.
    fn record_audit(&self, connection: &Connection, rows: &[AuditRow]);
}

/// Cells, and privileges of roles.
pub trait RoleTables {
    /// Returns the role of a cell's row. `name` identifies it if roles have different oids on different nodes.
    fn role(&self, number: Oid, name: Option<String>) -> Oid;

    /// Registers a cell, or changes it.
    fn register(&self, connection: &Connection, cell: &Registration);

    fn role_of_cell(&self, connection: &Connection, cell_id: i64) -> Option<Oid>;

    fn has_cells(&self, connection: &Connection, role: Oid) -> bool;

    /// Grants the functions of audiences to a role, or revokes them.
    fn change_grants(&self, connection: &Connection, role_name: &str, audiences: &[&str], granting: bool);

    /// Runs a GRANT or REVOKE on relations.
    fn grant(&self, connection: &Connection, grant: &str);

    /// Gives the objects of the extension to their owner on every node if the caller is a superuser. Raises an error if objects
    /// of others are left.
    fn hand_over(&self, _: &Connection) -> Result<(), ClaimsError> {
        Ok(())
    }

    /// Grants every role what its kind has in this version. The caller has locked the grants.
    fn refresh_grants(&self, connection: &Connection);

    /// Raises an error if the extension has another owner on some node: types and grants would change on some nodes only.
    fn require_own_nodes(&self, _: &Connection) -> Result<(), ClaimsError> {
        Ok(())
    }
}

/// Claims of a cell that is gone.
pub trait ReleaseTables {
    /// Deletes up to `limit` claims of a cell that no lease holds, and returns them. Does not wait for other transactions.
    fn release(&self, connection: &Connection, cell_id: i64, limit: i64) -> Vec<Bucket<'static>>;

    /// Like [`release`](Self::release), and returns only the number of claims. With `tells`, the same statement records them in the
    /// change feed as freed. Returns `None` if these tables have no such statement.
    fn release_in_bulk(&self, _: &Connection, _cell_id: i64, _limit: i64, _tells: bool) -> Option<i64> {
        None
    }
}

/// Epochs, by which the service distinguishes the databases of a cell.
pub trait EpochTables {
    /// Returns the epoch that a cell's database has presented last, as committed now.
    fn epoch(&self, cell_id: i64) -> Option<Epoch>;
}

/// The tables of the service. No operation decides anything: each returns what it has found or done. Lock waits are limited by
/// the lock timeout that the caller has set.
///
/// Each implementation implements the trait of an area in the file that has the statements of that area. This trait has the
/// differences between implementations beside statements. [`Local`](super::local) uses all of its defaults.
pub trait Tables:
    LeaseTables
    + ClaimTables
    + KeyTables
    + SkeletonTables
    + RecordTables
    + VerificationTables
    + NameTables
    + TransferTables
    + FeedTables
    + FeedPages
    + RoleTables
    + AuditTables
    + ReleaseTables
    + EpochTables
    + Sync
{
    /// Returns whether several statements are atomic only within a subtransaction.
    fn needs_subtransactions(&self) -> bool {
        false
    }

    /// Returns whether a query reads all tables in one snapshot.
    fn have_snapshot(&self) -> bool {
        true
    }

    /// Returns whether only a crash of this server can undo a commit that is flushed later.
    fn may_commit_unflushed(&self) -> bool {
        true
    }

    /// Returns whether begins are counted: by this server, or by the one that counts for all nodes.
    fn counts_begins(&self, connection: &Connection) -> bool;

    /// Lets one more begin of a cell pass, or returns from which moment on one may.
    fn pass_pace(&self, connection: &Connection, cell_id: i64, per_second: i32) -> Result<(), Moment>;

    /// Returns whether all sessions that begin leases share the memory of this server.
    fn shares_memory(&self) -> bool {
        true
    }

    /// Returns how the call relates to its transaction, if that matters. Call it before a subtransaction.
    fn surroundings(&self) -> Surroundings {
        Surroundings::Alone
    }

    /// Applies this session's lock timeout to statements on all nodes. Call it at the beginning of a subtransaction.
    fn bound_waits(&self, _: &Connection) {}

    /// Restores the caller's lock timeout for later statements on all nodes. Call it at the end of a subtransaction that is kept.
    fn free_waits(&self, _: &Connection, _: Surroundings) {}

    /// Prepares the transaction for an administrative action.
    fn begin_admin_action(&self) {}

    /// Returns whether the tables are distributed, for display.
    fn are_distributed(&self) -> bool {
        false
    }

    /// Raises an error if the tables are distributed, for features whose own statements do not support that.
    fn require_here(&self) -> Result<(), DistributionError> {
        Ok(())
    }

    /// Raises an error for an administrative action on another node than the coordinator, which has the log and the locks of
    /// these actions.
    fn require_coordinator(&self) -> Result<(), DistributionError> {
        Ok(())
    }
}

/// The changes that a reader of the feed wants.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    pub bucket_type: Option<i32>,
    pub limit: usize,
}
