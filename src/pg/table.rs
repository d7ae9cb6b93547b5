//! Reading small tables as a whole, without a statement: in a session's first call it takes longer to plan one than to read all of
//! them.

use std::ffi::CStr;

use pgrx::pg_sys;

use super::gate;
use super::index::{IndexedRow, LOCK, open_table};
use super::text::c_text;

/// The number of a table of schema `claims`; `None`: there is none. To be called by a query.
pub fn number(table: &CStr) -> Option<pg_sys::Oid> {
    // SAFETY: looks names up; a query is running, and so a transaction.
    let number = unsafe {
        let schema = pg_sys::get_namespace_oid(c"claims".as_ptr(), true);
        pg_sys::get_relname_relid(table.as_ptr(), schema)
    };
    (number != pg_sys::InvalidOid).then_some(number)
}

/// The same by a name that is not known beforehand.
pub fn called(name: &str) -> Option<pg_sys::Oid> {
    number(&c_text(name))
}

/// What `convert` makes of all rows of an ordinary table of schema `claims`, as they are committed right now or left by this
/// transaction; in no order. Holds a table lock (ACCESS SHARE) while it reads. `None`: there is no such table.
pub fn rows<T>(table: &CStr, mut convert: impl FnMut(&IndexedRow) -> T) -> Option<Vec<T>> {
    // SAFETY: what is opened here is closed here, or by the end of the (sub)transaction after an error. Without a snapshot of its
    // caller a scan takes the newest one; its slot has the row that it has read last.
    unsafe {
        let table = open_table(table);
        if table.is_null() {
            return None;
        }
        // With the lock came word of what has become of the table: its rows may be elsewhere now.
        gate::pass();
        let (nothing, no_keys) = (std::ptr::null_mut(), std::ptr::null_mut());
        let scan = pg_sys::systable_beginscan(table, pg_sys::InvalidOid, false, nothing, 0, no_keys);
        let mut rows = Vec::new();
        while !pg_sys::systable_getnext(scan).is_null() {
            rows.push(convert(&IndexedRow::of((*scan).slot)));
        }
        pg_sys::systable_endscan(scan);
        pg_sys::relation_close(table, LOCK);
        Some(rows)
    }
}
