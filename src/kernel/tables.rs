//! The door to the tables of the service. They are in this database, or distributed over the nodes of a Citus cluster, and a call decides
//! once, at its beginning, which of the two it uses.
//!
//! Each slice declares a trait for its own tables, and a [`Door`] to them. It implements the trait for [`Local`]; `citus` implements it for
//! distributed tables, and registers that when the library is loaded.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::OnceLock;

use pgrx::pg_sys::Oid;

use super::error::ClaimsError;
use pg::compatibility;
use pg::spi::Connection;
use pg::xact::Surroundings;

/// The differences between tables in this database and distributed ones beside the statements of the slices. [`Local`] uses all of its
/// defaults.
pub trait Nodes: Sync {
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

    /// Returns the role of a cell's row. `name` identifies it if roles have different oids on different nodes.
    fn role(&self, number: Oid, _name: Option<String>) -> Oid {
        number
    }

    /// Raises an error if the tables are distributed, for features whose own statements do not support that.
    fn require_here(&self) -> Result<(), ClaimsError> {
        Ok(())
    }

    /// Raises an error for an administrative action on another node than the coordinator, which has the log and the locks of
    /// these actions.
    fn require_coordinator(&self) -> Result<(), ClaimsError> {
        Ok(())
    }
}

/// The tables in this database. Index probes with a dirty snapshot find the rows of other open transactions.
pub struct Local;

impl Nodes for Local {}

/// The answers of what knows Citus.
pub struct Cluster {
    pub nodes: &'static dyn Nodes,
    /// Returns whether Citus is installed in this database.
    pub is_installed: fn() -> bool,
    /// Returns whether the tables are distributed, or an error if they are not those that calls expect.
    pub check: fn() -> Result<bool, ClaimsError>,
    /// Raises an error if calls would read the wrong tables.
    pub require_own: fn() -> bool,
}

static CLUSTER: OnceLock<Cluster> = OnceLock::new();

thread_local! {
    static ARE_DISTRIBUTED: Cell<bool> = const { Cell::new(false) };
}

/// Registers what knows Citus, when the library is loaded.
pub fn register(cluster: Cluster) {
    CLUSTER.get_or_init(|| cluster);
}

fn cluster() -> &'static Cluster {
    CLUSTER.get().expect("registered when the library was loaded")
}

/// Tells whether the tables of this database are distributed. The compatibility check calls it.
pub fn set_distributed(are_distributed: bool) {
    ARE_DISTRIBUTED.set(are_distributed);
}

/// The tables that a call uses.
#[derive(Clone, Copy)]
pub struct Tables {
    are_distributed: bool,
}

impl Tables {
    /// Returns whether they are distributed, for display.
    pub fn are_distributed(self) -> bool {
        self.are_distributed
    }
}

impl Deref for Tables {
    type Target = dyn Nodes;

    fn deref(&self) -> &Self::Target {
        if self.are_distributed { cluster().nodes } else { &Local }
    }
}

/// The way to some of the tables: `T` is the trait of those operations. No operation decides anything: each returns what it has found or
/// done. Lock waits are limited by the lock timeout that the caller has set.
pub struct Door<T: ?Sized + 'static> {
    local: &'static T,
    distributed: OnceLock<&'static T>,
}

impl<T: ?Sized + 'static> Door<T> {
    /// Returns the door with its implementation for tables in this database.
    pub const fn local(local: &'static T) -> Self {
        Door { local, distributed: OnceLock::new() }
    }

    /// Registers the implementation for distributed tables, when the library is loaded.
    pub fn register(&self, distributed: &'static T) {
        self.distributed.get_or_init(|| distributed);
    }

    /// Returns the implementation for these tables.
    pub fn at(&self, tables: Tables) -> &'static T {
        if tables.are_distributed {
            self.distributed.get().expect("registered when the library was loaded")
        } else {
            self.local
        }
    }
}

/// Returns the tables for a call, after the compatibility check.
pub fn at_entry() -> Tables {
    compatibility::require();
    of_this_database()
}

/// Returns the tables of this database, as the compatibility check has found them. Its callers run that check before they use them.
pub fn of_this_database() -> Tables {
    Tables { are_distributed: ARE_DISTRIBUTED.get() }
}

/// Returns whether a scan of a table of this database finds its rows. Where Citus is installed they may be in shards.
pub fn have_rows_here() -> bool {
    !(cluster().is_installed)()
}

/// Returns whether the tables of this database are those that calls expect. It raises no error, unlike the compatibility check.
pub fn are_usable() -> bool {
    (cluster().check)().is_ok()
}

/// Raises an error if calls would read the wrong tables. The part of the compatibility check that compares no versions.
pub fn require_own() {
    (cluster().require_own)();
}

/// Returns whether the tables are distributed, without the compatibility check. Returns false if they are not those that calls expect.
pub fn are_distributed_unchecked() -> bool {
    (cluster().check)().unwrap_or(false)
}
