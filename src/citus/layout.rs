//! Checks where the tables of the extension are: in this database, or distributed over the nodes of a Citus cluster by
//! `claims.distribute()`.
//!
//! Calls are refused if Citus manages other tables of the extension, or these tables in another way. Citus stores the rows of a
//! table in shards. The table of the original name is empty, or has old rows. Statements that Citus plans never read it, but
//! index probes do, and would find taken names free. On its other nodes Citus installs the extension by itself, with empty
//! tables: there every name would be free.

use std::cell::Cell;
use std::ffi::CStr;

use super::catalog;
use super::errors::DistributionError;
use crate::kernel::error::raise;
use crate::kernel::tables;
use pg::statement::{self, Planning, Reach};
use pg::{compatibility, extension, xact};

/// Distributed tables, each with its distribution column and the table that it is colocated with: rows of equal values are on one
/// node.
pub const DISTRIBUTED_BY: [(&str, &str, &str); 5] = [
    ("claims", "bucket_value", "none"),
    ("reservations", "bucket_value", "claims.claims"),
    ("claim_leases", "uuid", "none"),
    ("lease_outcomes", "lease_uuid", "claims.claim_leases"),
    ("skeletons", "skeleton", "claims.claim_leases"),
];

/// Tables on one node, in one shard, each with the table that it is colocated with: the change feed.
pub const ON_ONE_NODE: [(&str, &str); 2] = [("change_sets", "none"), ("change_horizon", "claims.change_sets")];

/// Reference tables, which are complete on every node. All other tables are local to each node: the lists that come with the
/// extension, the logs of each node, and the tables of features that cannot be used with distributed tables.
pub const EVERYWHERE: [&str; 10] = [
    "bucket_types",
    "cell_epochs",
    "cell_transfers",
    "cells",
    "limit_settings",
    "mode_settings",
    "source_types",
    "subject_types",
    "transfer_subjects",
    "type_names",
];

/// Settings for statements that may run on other nodes, so that the caller's settings have no effect.
pub const SETTINGS: &[(&CStr, &CStr)] = &[
    // Values are sent as texts, which a node reads by its own settings.
    (c"DateStyle", c"ISO, YMD"),
    // The texts of statements are read by the node's setting, too.
    (c"standard_conforming_strings", c"on"),
    // Results are sent in binary, and Citus converts them as if this session's client had sent them.
    (c"client_encoding", c"UTF8"),
    // Otherwise the changes of a failed function would stay on other nodes.
    (c"citus.function_opens_transaction_block", c"on"),
    // One connection for each node: making more of them takes longer than they save.
    (c"citus.max_adaptive_executor_pool_size", c"1"),
    // Without it Citus refuses most generic plans.
    (c"citus.enable_fast_path_router_planner", c"on"),
    // Statements on several shards need not exclude each other: a call that would wait for a row gives up, and then takes the
    // rows in order.
    (c"citus.enable_deadlock_prevention", c"off"),
    // Each statement declares whether its plan depends on the values. Citus refuses generic plans of most statements.
    (c"plan_cache_mode", c"auto"),
];

thread_local! {
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

pub fn is_distributed() -> bool {
    tables::of_this_database().are_distributed()
}

/// Checks the tables for the compatibility check. Raises an error if calls would read the wrong tables. Returns `false` while a
/// script of the extension runs, which may do what others may not.
pub fn require_own_tables() -> bool {
    if extension::is_script_running() {
        return false;
    }
    let checked = check_tables();
    tables::set_distributed(*checked.as_ref().unwrap_or(&false));
    statement::set_planning(if is_distributed() { Planning::EachTime } else { Planning::Once });
    raise(checked.map_err(Into::into));
    // The connections of a parallel worker to other nodes would not see the changes of the transaction.
    if is_distributed() && xact::is_parallel_worker() {
        raise::<()>(Err(DistributionError::InParallelWorker.into()));
    }
    true
}

/// Checks a statement while the tables are distributed. A statement that was not written for distributed tables is an error,
/// never an answer.
pub fn require_reach(reach: Reach) {
    // The nodes have no common snapshot that a transaction could keep.
    if is_distributed() && xact::uses_transaction_snapshot() {
        raise::<()>(Err(DistributionError::Isolation.into()));
    }
    if reach == Reach::Here {
        raise::<()>(Err(DistributionError::Unsupported.into()));
    }
}

/// Refuses administrative actions on other nodes than the coordinator, which has their log and their locks.
pub fn require_coordinator() -> Result<(), DistributionError> {
    if is_worker() { Err(DistributionError::OnTheCoordinator) } else { Ok(()) }
}

/// Returns whether the tables are distributed and this node is not the coordinator.
pub fn is_worker() -> bool {
    is_distributed() && IS_WORKER.get()
}

/// Checks in the catalogs that the tables are those that calls expect, and returns whether they are distributed. If Citus changes
/// a table it sends invalidations, after which this is checked again.
pub fn check_tables() -> Result<bool, DistributionError> {
    let catalogs = catalog::catalogs();
    if catalogs.is_empty() {
        return Ok(false);
    }
    // Watch first, so that no invalidation is missed that arrives during the check.
    compatibility::watch(extension::relations(c"claims").into_iter().chain(catalogs).collect());
    let Some(managed) = catalog::managed(c"claims") else { return Ok(false) };
    IS_WORKER.set(managed.is_worker);
    let on_one_node = ON_ONE_NODE.iter().map(|(table, _)| *table);
    let mut expected: Vec<_> =
        DISTRIBUTED_BY.iter().map(|(table, ..)| *table).chain(on_one_node).chain(EVERYWHERE).collect();
    expected.sort_unstable();
    match managed.tables.as_slice() {
        [] if managed.is_worker => Err(DistributionError::NotTheCoordinator),
        [] => Ok(false),
        tables if tables == expected => Ok(true),
        _ => Err(DistributionError::ByOtherMeans { tables: managed.tables }),
    }
}
