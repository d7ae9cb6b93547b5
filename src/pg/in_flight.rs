//! Rows that other open transactions are writing: what no MVCC snapshot shows.
//!
//! A lock that could not be had in time says nothing about its kind: it may have been the row of another transaction, or
//! the lock under which a table grows. This look tells them apart. It reads an index under the dirty snapshot, as
//! Postgres' own `check_exclusion_constraint()` does, and locks nothing but the table's definition.

use std::ffi::CStr;

use pgrx::pg_sys;
use pgrx::{IntoDatum, Uuid};

/// One column of a key.
pub enum KeyPart<'k> {
    Text(&'k str),
    Int4(i32),
    Uuid(Uuid),
}

impl KeyPart<'_> {
    /// The operator's function by which the column is compared, and the value.
    fn comparison(&self) -> (u32, Option<pg_sys::Datum>) {
        match self {
            KeyPart::Text(value) => (pg_sys::F_TEXTEQ, value.into_datum()),
            KeyPart::Int4(value) => (pg_sys::F_INT4EQ, value.into_datum()),
            KeyPart::Uuid(value) => (pg_sys::F_UUID_EQ, value.into_datum()),
        }
    }
}

/// Whether another open transaction has inserted, changed, deleted or locked a row with this key of the index
/// `claims.<index>`. An index that is gone has none.
pub fn is_in_flight(index: &CStr, key: &[KeyPart]) -> bool {
    const LOCK: pg_sys::LOCKMODE = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
    let columns = i32::try_from(key.len()).unwrap_or(0);
    // SAFETY: everything opened here is closed here, or by the end of the (sub)transaction after an error. The snapshot and
    // the keys outlive the scan. The name is looked up each time, because REINDEX CONCURRENTLY gives it to another index.
    unsafe {
        let schema = pg_sys::get_namespace_oid(c"claims".as_ptr(), true);
        let index = pg_sys::try_relation_open(pg_sys::get_relname_relid(index.as_ptr(), schema), LOCK);
        if index.is_null() {
            return false;
        }
        let table = pg_sys::table_open((*(*index).rd_index).indrelid, LOCK);
        let slot = pg_sys::table_slot_create(table, std::ptr::null_mut());
        let mut keys = vec![pg_sys::ScanKeyData::default(); key.len()];
        for ((at, part), column) in keys.iter_mut().zip(key).zip(1..) {
            let (equals, value) = part.comparison();
            let value = value.unwrap_or_else(|| pg_sys::Datum::from(0));
            pg_sys::ScanKeyInit(at, column, pg_sys::BTEqualStrategyNumber as _, equals.into(), value);
        }
        let mut dirty =
            pg_sys::SnapshotData { snapshot_type: pg_sys::SnapshotType::SNAPSHOT_DIRTY, ..Default::default() };
        let scan = begin_scan(table, index, &mut dirty, columns);
        pg_sys::index_rescan(scan, keys.as_mut_ptr(), columns, std::ptr::null_mut(), 0);
        let mut found = false;
        while !found && pg_sys::index_getnext_slot(scan, pg_sys::ScanDirection::ForwardScanDirection, slot) {
            // Set by the visibility check of a dirty snapshot to the other transaction, if there is one.
            let is_changing = dirty.xmin != pg_sys::InvalidTransactionId || dirty.xmax != pg_sys::InvalidTransactionId;
            found = is_changing || is_locked_elsewhere(slot);
        }
        pg_sys::index_endscan(scan);
        pg_sys::ExecDropSingleTupleTableSlot(slot);
        pg_sys::relation_close(table, LOCK);
        pg_sys::relation_close(index, LOCK);
        found
    }
}

/// Whether another open transaction has locked the row: to readers that is no change, and a dirty snapshot shows it as it
/// is.
unsafe fn is_locked_elsewhere(slot: *mut pg_sys::TupleTableSlot) -> bool {
    // SAFETY: the slot holds a tuple of a heap, pinned, which is asked for in place.
    unsafe {
        let mut is_copy = false;
        let header = (*pg_sys::ExecFetchSlotHeapTuple(slot, false, &mut is_copy)).t_data;
        let xmax = (*header).t_choice.t_heap.t_xmax;
        let infomask = u32::from((*header).t_infomask);
        if infomask & pg_sys::HEAP_XMAX_INVALID != 0 {
            false
        } else if infomask & pg_sys::HEAP_XMAX_IS_MULTI != 0 {
            pg_sys::MultiXactIdIsRunning(xmax, infomask & pg_sys::HEAP_XMAX_LOCK_ONLY != 0)
        } else {
            !pg_sys::TransactionIdIsCurrentTransactionId(xmax) && pg_sys::TransactionIdIsInProgress(xmax)
        }
    }
}

/// `index_beginscan`, which has an argument more since PostgreSQL 18.
unsafe fn begin_scan(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    snapshot: pg_sys::Snapshot,
    columns: i32,
) -> pg_sys::IndexScanDesc {
    #[cfg(not(feature = "pg18"))]
    return unsafe { pg_sys::index_beginscan(table, index, snapshot, columns, 0) };
    #[cfg(feature = "pg18")]
    return unsafe { pg_sys::index_beginscan(table, index, snapshot, std::ptr::null_mut(), columns, 0) };
}
