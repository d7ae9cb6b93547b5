//! Where the tables of the extension are: in this database, or spread over the nodes of a Citus cluster by `claims.distribute()`.
//!
//! Calls are refused where Citus manages other tables of the extension, or in other ways. It keeps the rows of a table in shards.
//! What is left under its name, empty or with the rows of that day, statements that it plans never read; but looks into an index do,
//! and would find names free that are not. On its other nodes Citus installs the extension by itself, with tables that nobody has
//! filled: there every name would be free.

use std::cell::Cell;

use crate::error::{DistributionError, raise};
use crate::pg::statement::{self, Planning, Reach};
use crate::pg::{citus, extension, gate, xact};

/// Tables that are spread by a column, each beside another one or by itself: rows of equal values are on one node.
pub const SPREAD_BY: [(&str, &str, &str); 5] = [
    ("claims", "bucket_value", "none"),
    ("reservations", "bucket_value", "claims.claims"),
    ("claim_leases", "uuid", "none"),
    ("lease_outcomes", "lease_uuid", "claims.claim_leases"),
    ("skeletons", "skeleton", "claims.claim_leases"),
];

/// Tables that are on one node, in one shard, each beside another one: the change feed.
pub const ON_ONE_NODE: [(&str, &str); 2] = [("change_sets", "none"), ("change_horizon", "claims.change_sets")];

/// Tables that are whole on every node. All others stay what they are on each node: the lists that come with the extension, what
/// each node logs, and what is not to be used where the tables are spread.
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

/// Where the tables are that every call reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whereabouts {
    Here,
    Spread,
}

thread_local! {
    static FOUND: Cell<Whereabouts> = const { Cell::new(Whereabouts::Here) };
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// As the gate has found it.
pub fn whereabouts() -> Whereabouts {
    FOUND.get()
}

/// Whether they are spread over nodes.
pub fn is_spread() -> bool {
    FOUND.get() == Whereabouts::Spread
}

/// The check of the gate: raises an error where calls would read tables that are not the ones. `false`: an extension's script may
/// do what is refused to others.
pub fn require_own_tables() -> bool {
    if extension::is_script_running() {
        return false;
    }
    let found = look();
    FOUND.set(*found.as_ref().unwrap_or(&Whereabouts::Here));
    statement::plan(if FOUND.get() == Whereabouts::Spread { Planning::EachTime } else { Planning::Once });
    raise(found.map_err(Into::into));
    true
}

/// The nodes have no common snapshot: what keeps one is an error, where the tables are spread.
pub fn require_read_committed() {
    if FOUND.get() == Whereabouts::Spread && xact::keeps_one_snapshot() {
        raise::<()>(Err(DistributionError::Isolation.into()));
    }
}

/// The check of statements while the tables are spread. What nobody has tried on spread tables is an error, never an answer.
pub fn require_reach(reach: Reach) {
    require_read_committed();
    if reach == Reach::Here {
        raise::<()>(Err(DistributionError::Unsupported.into()));
    }
}

/// For what reads tables by statements of its own, which nobody has made work where they are spread.
pub fn require_here() -> Result<(), DistributionError> {
    if is_spread() { Err(DistributionError::Unsupported) } else { Ok(()) }
}

/// Where the tables are spread, what administrators do is written down, and waits for each other, on one node.
pub fn require_coordinator() -> Result<(), DistributionError> {
    if is_spread() && IS_WORKER.get() { Err(DistributionError::OnTheCoordinator) } else { Ok(()) }
}

/// Where the tables are spread: whether this node is another one than the coordinator.
pub fn is_worker() -> bool {
    is_spread() && IS_WORKER.get()
}

/// Whether the tables are what calls take them for.
pub fn has_own_tables() -> bool {
    look().is_ok()
}

/// Where Citus is installed it tells all sessions what it has done to a table; from then on this is asked again.
pub fn look() -> Result<Whereabouts, DistributionError> {
    let catalogs = citus::catalogs();
    if catalogs.is_empty() {
        return Ok(Whereabouts::Here);
    }
    // First of all: a change that is announced while this looks is not to be missed.
    gate::watch(extension::relations(c"claims").into_iter().chain(catalogs).collect());
    let Some(managed) = citus::managed(c"claims") else { return Ok(Whereabouts::Here) };
    IS_WORKER.set(managed.is_worker);
    let on_one_node = ON_ONE_NODE.iter().map(|(table, _)| *table);
    let mut expected: Vec<_> =
        SPREAD_BY.iter().map(|(table, ..)| *table).chain(on_one_node).chain(EVERYWHERE).collect();
    expected.sort_unstable();
    match managed.tables.as_slice() {
        [] if managed.is_worker => Err(DistributionError::NotTheCoordinator),
        [] => Ok(Whereabouts::Here),
        tables if tables == expected => Ok(Whereabouts::Spread),
        _ => Err(DistributionError::ByOtherMeans { tables: managed.tables }),
    }
}
