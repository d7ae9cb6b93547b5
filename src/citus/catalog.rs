//! Reads which tables of this database Citus manages, from its catalogs in `pg_catalog`. Their columns used here have stayed the
//! same since version 8.

use std::ffi::CStr;

use pgrx::pg_sys::Oid;

use pg::catalog::{self, FourBytes};

/// The catalog with one row for each table that Citus manages.
const TABLES: &CStr = c"pg_dist_partition";
/// The catalog with one row: the group of nodes that this server belongs to.
const GROUP: &CStr = c"pg_dist_local_group";
/// The group of the coordinator.
const COORDINATOR: i32 = 0;

/// The state of Citus in this database.
pub struct Managed {
    /// Tables of the schema that Citus manages: distributed tables, reference tables, and local tables that it was told of. Their
    /// rows are in shards, which are tables of other names.
    pub tables: Vec<String>,
    /// Whether this server is a node other than the coordinator.
    pub is_worker: bool,
}

/// Returns which tables of a schema Citus manages, or `None` if Citus is not installed in this database.
pub fn managed(schema: &CStr) -> Option<Managed> {
    let tables = catalog::column(TABLES, c"logicalrelid", FourBytes::Regclass)?;
    let mut tables = catalog::names_in_schema(tables.into_iter().map(Oid::from), schema);
    tables.sort_unstable();
    let groups = groups()?;
    Some(Managed { tables, is_worker: groups.into_iter().any(|group| group != COORDINATOR) })
}

/// Returns the group of this server, or `None` if it belongs to no cluster.
pub fn own_group() -> Option<i32> {
    groups()?.first().copied()
}

fn groups() -> Option<Vec<i32>> {
    let groups = catalog::column(GROUP, c"groupid", FourBytes::Int4)?;
    Some(groups.into_iter().map(u32::cast_signed).collect())
}

/// Returns the catalogs that [managed] reads. Citus sends relcache invalidations to all sessions: for GROUP itself when it
/// changes, and for the table concerned when a row of TABLES changes.
pub fn catalogs() -> Vec<Oid> {
    [TABLES, GROUP].into_iter().filter_map(catalog::relation).collect()
}

/// Returns whether Citus is installed in this database.
pub fn is_installed() -> bool {
    catalog::relation(TABLES).is_some()
}
