//! The tables of schema `claims` without a statement: their numbers, their rows. Small ones are read as a whole: in a session's
//! first call it takes longer to plan a statement than to read all of them.

use std::cell::Cell;
use std::ffi::CStr;

use pgrx::pg_sys;

use super::altered::{self, Altered};
use super::gate;
use super::text::c_text;
use super::tuple::{attribute, is_named, width};
use super::value::Column;

/// A stored row of a table.
pub struct TableRow {
    slot: *mut pg_sys::TupleTableSlot,
    /// The column after the one that was read last: they are read in the table's order.
    next: Cell<usize>,
}

impl TableRow {
    /// # Safety
    /// The slot holds a row for as long as this value lives.
    pub(super) unsafe fn of(slot: *mut pg_sys::TupleTableSlot) -> Self {
        TableRow { slot, next: Cell::new(0) }
    }

    /// A column by its name; `None` is NULL. It is an error if the table has no such column of this type.
    pub fn get<T: Column>(&self, column: &CStr) -> Option<T> {
        // SAFETY: the slot holds a row of the descriptor's columns, which are made readable up to the one that is asked for;
        // its type is the one that T reads.
        unsafe {
            let descriptor = (*self.slot).tts_tupleDescriptor;
            let columns = width(descriptor);
            let from = self.next.get();
            let found = (from..columns).chain(0..from).find(|at| is_named(attribute(descriptor, at + 1), column));
            let Some(at) = found.filter(|at| T::fits(attribute(descriptor, at + 1).atttypid)) else {
                altered::raise(Altered::Column { name: column.to_string_lossy().into_owned() });
            };
            self.next.set(at + 1);
            if usize::try_from((*self.slot).tts_nvalid).unwrap_or(0) <= at {
                pg_sys::slot_getsomeattrs_int(self.slot, std::ffi::c_int::try_from(at + 1).unwrap_or(0));
            }
            if *(*self.slot).tts_isnull.add(at) { None } else { T::read(*(*self.slot).tts_values.add(at)) }
        }
    }

    /// A column that is declared NOT NULL.
    pub fn must<T: Column>(&self, column: &CStr) -> T {
        let name = || column.to_string_lossy().into_owned();
        self.get(column).unwrap_or_else(|| altered::raise(Altered::Null { name: name() }))
    }

    /// The slot, for questions about the stored tuple.
    pub(super) fn slot(&self) -> *mut pg_sys::TupleTableSlot {
        self.slot
    }
}

/// What reading takes of a table.
pub(super) const LOCK: pg_sys::LOCKMODE = pg_sys::AccessShareLock as pg_sys::LOCKMODE;

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

/// Opens and locks an ordinary table of schema `claims`; NULL where there is none.
///
/// # Safety
/// To be called in a transaction.
pub(super) unsafe fn open_table(name: &CStr) -> pg_sys::Relation {
    // SAFETY: looks names up; a relation that has gone in between is NULL.
    unsafe {
        let number = number(name).unwrap_or(pg_sys::InvalidOid);
        let table = pg_sys::try_relation_open(number, LOCK);
        if !table.is_null() && (*(*table).rd_rel).relkind as u8 != pg_sys::RELKIND_RELATION {
            pg_sys::relation_close(table, LOCK);
            return std::ptr::null_mut();
        }
        table
    }
}

/// What `convert` makes of all rows of an ordinary table of schema `claims`, as they are committed right now or left by this
/// transaction; in no order. Holds a table lock (ACCESS SHARE) while it reads. `None`: there is no such table.
pub fn rows<T>(table: &CStr, mut convert: impl FnMut(&TableRow) -> T) -> Option<Vec<T>> {
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
            rows.push(convert(&TableRow::of((*scan).slot)));
        }
        pg_sys::systable_endscan(scan);
        pg_sys::relation_close(table, LOCK);
        Some(rows)
    }
}
