//! Rows that other open transactions are writing: what no MVCC snapshot shows.
//!
//! A lock that could not be had in time says nothing about its kind: it may have been the row of another transaction, or
//! the lock under which a table grows. This look tells them apart. It reads an index under the dirty snapshot, as
//! Postgres' own `check_exclusion_constraint()` does, and locks nothing but the table's definition.

use std::ffi::CStr;

use pgrx::pg_sys;

use super::index::{KeyPart, scan};

/// Whether another open transaction has inserted, changed, deleted or locked a row with this key of the index
/// `claims.<index>`. An index that is gone has none.
pub fn is_in_flight(index: &CStr, key: &[KeyPart]) -> bool {
    let mut dirty = pg_sys::SnapshotData { snapshot_type: pg_sys::SnapshotType::SNAPSHOT_DIRTY, ..Default::default() };
    let dirty = &raw mut dirty;
    let mut found = false;
    // SAFETY: the snapshot outlives the scan; the visibility check of a dirty snapshot sets its xmin and xmax to the other
    // transaction, if there is one.
    unsafe {
        scan(index, key, dirty, |row| {
            let is_changing =
                (*dirty).xmin != pg_sys::InvalidTransactionId || (*dirty).xmax != pg_sys::InvalidTransactionId;
            found = is_changing || is_locked_elsewhere(row.slot());
            !found
        });
    }
    found
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
