//! What Citus, where it is installed, has made of tables of this database. Its catalogs are read as Postgres reads its own: as of
//! now, whatever the transaction's snapshot, and without a statement. They are kept in `pg_catalog`, in columns that have stayed
//! the same since version 8.

use std::ffi::CStr;

use pgrx::pg_sys;

use super::tuple::{attribute, is_named, width};

/// One row for each table that Citus manages, however it does.
const TABLES: &CStr = c"pg_dist_partition";
/// One row: the group of nodes that this server is one of.
const GROUP: &CStr = c"pg_dist_local_group";
/// The group of the coordinator.
const COORDINATOR: i32 = 0;

/// What Citus knows.
pub struct Managed {
    /// Tables of the schema that it manages: distributed ones, reference tables, and local ones that it was told of. Their rows are
    /// in shards, tables of other names.
    pub tables: Vec<String>,
    /// This server is another node than the coordinator.
    pub is_worker: bool,
}

/// What Citus has made of the tables of a schema. `None`: it is not installed in this database.
pub fn managed(schema: &CStr) -> Option<Managed> {
    // SAFETY: looks names up.
    let schema = unsafe { pg_sys::get_namespace_oid(schema.as_ptr(), true) };
    let of_schema = |table: &pg_sys::Oid| unsafe { pg_sys::get_rel_namespace(*table) } == schema;
    let tables = rows(TABLES, c"logicalrelid", pg_sys::REGCLASSOID)?;
    let mut tables: Vec<_> = tables.into_iter().map(pg_sys::Oid::from).filter(of_schema).filter_map(name_of).collect();
    tables.sort_unstable();
    let groups = rows(GROUP, c"groupid", pg_sys::INT4OID)?;
    Some(Managed { tables, is_worker: groups.into_iter().any(|group| group.cast_signed() != COORDINATOR) })
}

/// The group of this server. `None`: it is of no cluster.
pub fn own_group() -> Option<i32> {
    rows(GROUP, c"groupid", pg_sys::INT4OID)?.first().map(|group| group.cast_signed())
}

/// The catalogs in which that is written. Citus tells all sessions, by relcache invalidations, when it has changed the one of this
/// server's group; when it has changed a row of the other it tells of the table that the row is about.
pub fn catalogs() -> Vec<pg_sys::Oid> {
    [TABLES, GROUP].into_iter().filter_map(catalog).collect()
}

/// Whether it is installed in this database, and so may have tables of it.
pub fn is_installed() -> bool {
    catalog(TABLES).is_some()
}

/// A catalog of Citus, where it is installed.
fn catalog(name: &CStr) -> Option<pg_sys::Oid> {
    // SAFETY: looks a name up.
    let catalog = unsafe { pg_sys::get_relname_relid(name.as_ptr(), pg_sys::Oid::from(pg_sys::PG_CATALOG_NAMESPACE)) };
    (catalog != pg_sys::InvalidOid).then_some(catalog)
}

/// The name of a table that is still there.
fn name_of(table: pg_sys::Oid) -> Option<String> {
    // SAFETY: the name is a copy, or NULL.
    unsafe {
        let name = pg_sys::get_rel_name(table);
        (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
    }
}

/// A column of all rows of a catalog, of a type that is a number of four bytes. `None`: there is no such catalog or column.
fn rows(name: &CStr, column: &CStr, of_type: pg_sys::Oid) -> Option<Vec<u32>> {
    const LOCK: pg_sys::LOCKMODE = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
    let catalog = catalog(name)?;
    // SAFETY: what is opened here is closed here, or by the end of the (sub)transaction after an error. A table that has gone in
    // between is NULL. The column is one of the table's, and its type one that is passed by value in four bytes.
    unsafe {
        let table = pg_sys::try_relation_open(catalog, LOCK);
        if table.is_null() {
            return None;
        }
        let descriptor = (*table).rd_att;
        let is_it = |number: &usize| is_named(attribute(descriptor, *number), column);
        let number = (1..=width(descriptor)).find(is_it);
        let number = number.filter(|number| attribute(descriptor, *number).atttypid == of_type);
        let found = number.map(|number| {
            let nothing = std::ptr::null_mut();
            let scan = pg_sys::systable_beginscan(table, pg_sys::InvalidOid, false, nothing, 0, std::ptr::null_mut());
            let mut found = Vec::new();
            loop {
                let row = pg_sys::systable_getnext(scan);
                if row.is_null() {
                    break;
                }
                let mut is_null = false;
                let value = pg_sys::heap_getattr(row, number as std::ffi::c_int, descriptor, &mut is_null);
                if !is_null {
                    found.push(value.value() as u32);
                }
            }
            pg_sys::systable_endscan(scan);
            found
        });
        pg_sys::relation_close(table, LOCK);
        found
    }
}
