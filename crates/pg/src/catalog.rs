//! Catalogs that another extension has in `pg_catalog`. They are read like PostgreSQL's own catalogs: in their current
//! state, whatever the transaction's snapshot, and without a statement.

use std::ffi::CStr;

use pgrx::pg_sys;

use super::tuple::{attribute, is_named, width};

/// The type of a column with four-byte values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FourBytes {
    Int4,
    Regclass,
}

impl FourBytes {
    fn oid(self) -> pg_sys::Oid {
        match self {
            FourBytes::Int4 => pg_sys::INT4OID,
            FourBytes::Regclass => pg_sys::REGCLASSOID,
        }
    }
}

/// Returns the number of a catalog, if it exists.
pub fn relation(name: &CStr) -> Option<pg_sys::Oid> {
    // SAFETY: looks a name up.
    let catalog = unsafe { pg_sys::get_relname_relid(name.as_ptr(), pg_sys::Oid::from(pg_sys::PG_CATALOG_NAMESPACE)) };
    (catalog != pg_sys::InvalidOid).then_some(catalog)
}

/// Returns the names of those relations that still exist and are in a schema.
pub fn names_in_schema(relations: impl IntoIterator<Item = pg_sys::Oid>, schema: &CStr) -> Vec<String> {
    // SAFETY: looks names up; the name is a copy, or NULL.
    let name_of = |relation: pg_sys::Oid| unsafe {
        let name = pg_sys::get_rel_name(relation);
        (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
    };
    // SAFETY: looks numbers up.
    let schema = unsafe { pg_sys::get_namespace_oid(schema.as_ptr(), true) };
    let is_there = |relation: &pg_sys::Oid| unsafe { pg_sys::get_rel_namespace(*relation) } == schema;
    relations.into_iter().filter(is_there).filter_map(name_of).collect()
}

/// Returns one column of all rows of a catalog. Returns `None` if the catalog does not exist, or has no such column of
/// this type. Locks the catalog ACCESS SHARE while it reads.
pub fn column(name: &CStr, column: &CStr, of_type: FourBytes) -> Option<Vec<u32>> {
    const LOCK: pg_sys::LOCKMODE = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
    let catalog = relation(name)?;
    // SAFETY: relations and scans are closed here, or at the end of the (sub)transaction after an error. A table that
    // was dropped meanwhile is NULL. The column belongs to the table, and its type is passed by value in four bytes.
    unsafe {
        let table = pg_sys::try_relation_open(catalog, LOCK);
        if table.is_null() {
            return None;
        }
        let descriptor = (*table).rd_att;
        let is_it = |number: &usize| is_named(attribute(descriptor, *number), column);
        let number = (1..=width(descriptor)).find(is_it);
        let number = number.filter(|number| attribute(descriptor, *number).atttypid == of_type.oid());
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
