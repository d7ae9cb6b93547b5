//! The traits through which the rules of the service reach its tables.

mod admin;
mod reads;
mod writes;

pub use admin::{AuditTables, NameTables, ReleaseTables, RoleTables, TransferTables};
pub use reads::{ActingPlace, EpochTables, FeedPages, RecordTables, VerificationTables, WantedChanges};
pub use writes::{
    CONTENTION_SQLSTATES, ClaimTables, EndedLease, EndedSkeletons, FeedTables, Key, KeyExists, KeyTables, LeaseInUse,
    LeaseTables, Locks, RowsToInsert, SkeletonTables,
};

use crate::tables::errors::DistributionError;
use pg::clock::Moment;
use pg::spi::Connection;
use pg::xact::Surroundings;

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
    fn pass_pace(&self, connection: &Connection, cell_id: i64, per_second: i32, records: i64) -> Result<(), Moment>;

    /// Holds one of the slots for verification for a cell, or holds it for longer. Returns `false` if `limit` other cells hold one;
    /// 0 means no limit. For 0 seconds it gives the slot back.
    fn hold_verification_slot(&self, connection: &Connection, cell_id: i64, seconds: i32, limit: i64) -> bool;

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
