//! Finds rows that other open transactions are writing, which no MVCC snapshot shows.
//!
//! A lock timeout does not say what the statement waited for: a row of another transaction, or the relation extension
//! lock. This probe distinguishes them. It scans an index with a dirty snapshot, as PostgreSQL's
//! `check_exclusion_constraint()` does. It takes no lock except those on table and index that the scan needs.

use std::ffi::CStr;

use pgrx::pg_sys;

use super::index::{KeyColumns, KeyPart, Unusable, scan};
use super::statement::Reach;
use super::table::TableRow;

/// Returns whether another open transaction has inserted, updated, deleted or locked the row of table `claims.<table>`
/// with this key. Uses a unique index. If there is a committed row that no other transaction writes or locks, the answer is
/// no, even if another transaction has inserted a second row with the key: that row cannot be committed.
pub fn is_in_flight(table: &CStr, key: &[KeyPart]) -> Result<bool, Unusable> {
    let mut found = false;
    scan_dirty((table, Reach::Here), key, KeyColumns::All, |row, writer| {
        found = is_changing(row, writer);
        found
    })?;
    Ok(found)
}

/// Returns whether another open transaction has inserted, updated, deleted or locked a row with values of the first columns of
/// an index.
pub fn is_any_in_flight(table: &CStr, first_columns: &[KeyPart]) -> Result<bool, Unusable> {
    let mut found = false;
    scan_dirty((table, Reach::Here), first_columns, KeyColumns::First, |row, writer| {
        found = is_changing(row, writer);
        !found
    })?;
    Ok(found)
}

/// Returns whether another open transaction has written or locked the row.
fn is_changing(row: &TableRow, writer: Option<Writer>) -> bool {
    // SAFETY: the slot holds the row that was read last.
    writer.is_some() || unsafe { is_locked_elsewhere(row.slot()) }
}

/// The result of [`find_row`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundRow {
    /// There is none, or this transaction has deleted it.
    None,
    /// The row is committed, or this transaction has written it.
    Row,
    /// Another open transaction has inserted or deleted the row.
    WrittenBy(Writer),
}

/// Another open transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Writer(pg_sys::TransactionId);

impl Writer {
    /// Waits until the transaction has ended, at most for `lock_timeout`.
    pub fn wait(self) {
        // SAFETY: waits for a lock; NULL means that the error context names no row.
        unsafe {
            pg_sys::XactLockTableWait(self.0, std::ptr::null_mut(), std::ptr::null_mut(), pg_sys::XLTW_Oper::XLTW_None)
        };
    }
}

/// Returns the first row of table `claims.<table>` with values of the first columns of a unique index for which
/// `is_meant` is true. Ignores the snapshot of this transaction.
pub fn find_row(
    table: &CStr,
    first_columns: &[KeyPart],
    mut is_meant: impl FnMut(&TableRow) -> bool,
) -> Result<FoundRow, Unusable> {
    let mut found = FoundRow::None;
    scan_dirty((table, Reach::Here), first_columns, KeyColumns::First, |row, writer| {
        if is_meant(row) {
            found = writer.map_or(FoundRow::Row, FoundRow::WrittenBy);
        }
        found == FoundRow::None
    })?;
    Ok(found)
}

/// Calls `each` for all rows of table `claims.<table>`, and whether another open transaction writes the row, which then may come in two
/// versions. Reads the whole unique index, and ignores the snapshot of this transaction. The table must be one that is never
/// distributed: each node has rows of its own.
pub fn each_row(table: &CStr, mut each: impl FnMut(&TableRow, bool)) -> Result<(), Unusable> {
    scan_dirty((table, Reach::Anywhere), &[], KeyColumns::First, |row, writer| {
        each(row, writer.is_some());
        true
    })
}

/// Calls `each` for the rows with a key, together with the other open transaction that writes the row, if any. Ends
/// when `each` returns false.
fn scan_dirty(
    table: (&CStr, Reach),
    key: &[KeyPart],
    named: KeyColumns,
    mut each: impl FnMut(&TableRow, Option<Writer>) -> bool,
) -> Result<(), Unusable> {
    let mut dirty = pg_sys::SnapshotData { snapshot_type: pg_sys::SnapshotType::SNAPSHOT_DIRTY, ..Default::default() };
    let dirty = &raw mut dirty;
    // SAFETY: the snapshot outlives the scan; the visibility check of a dirty snapshot sets its xmin and xmax to the
    // other transaction, if there is one.
    unsafe {
        scan(table, key, named, dirty, |row| {
            let writers = [(*dirty).xmin, (*dirty).xmax];
            each(row, writers.into_iter().find(|xid| *xid != pg_sys::InvalidTransactionId).map(Writer))
        })
    }
}

/// Returns whether another open transaction has locked the row. A lock does not change the row, so a dirty snapshot
/// does not show it. If the slot has no heap tuple on a page, the row counts as locked.
///
/// # Safety
/// The slot holds a row.
unsafe fn is_locked_elsewhere(slot: *mut pg_sys::TupleTableSlot) -> bool {
    // SAFETY: a slot of this kind pins the page of its tuple. Both fields change together, under the lock of the page.
    let (xmax, infomask) = unsafe {
        if !std::ptr::eq((*slot).tts_ops, &raw const pg_sys::TTSOpsBufferHeapTuple) {
            return true;
        }
        let slot = slot.cast::<pg_sys::BufferHeapTupleTableSlot>();
        let header = (*(*slot).base.tuple).t_data;
        pg_sys::LockBuffer((*slot).buffer, pg_sys::BUFFER_LOCK_SHARE as std::ffi::c_int);
        let read = ((*header).t_choice.t_heap.t_xmax, u32::from((*header).t_infomask));
        pg_sys::LockBuffer((*slot).buffer, pg_sys::BUFFER_LOCK_UNLOCK as std::ffi::c_int);
        read
    };
    if infomask & pg_sys::HEAP_XMAX_INVALID != 0 {
        false
    } else if infomask & pg_sys::HEAP_XMAX_IS_MULTI != 0 {
        has_member_elsewhere(xmax, infomask)
    } else {
        is_running_elsewhere(xmax)
    }
}

/// Returns whether another open transaction is a member of a multixact. This transaction may be a member several times,
/// by itself and by its savepoints.
fn has_member_elsewhere(multi: pg_sys::MultiXactId, infomask: u32) -> bool {
    let is_lock_only = infomask & pg_sys::HEAP_XMAX_LOCK_ONLY != 0;
    // pg_upgrade left it from a version whose multixact ids have no meaning here (HEAP_LOCKED_UPGRADED).
    let strengths = pg_sys::HEAP_XMAX_EXCL_LOCK | pg_sys::HEAP_XMAX_KEYSHR_LOCK;
    let is_from_pgupgrade = is_lock_only && infomask & strengths == 0;
    let mut members = std::ptr::null_mut();
    // SAFETY: the call returns the number of members, which are in memory that is freed here.
    unsafe {
        let count = pg_sys::GetMultiXactIdMembers(multi, &mut members, is_from_pgupgrade, is_lock_only);
        let Some(count) = usize::try_from(count).ok().filter(|count| *count > 0) else { return false };
        let found = (0..count).any(|at| is_running_elsewhere((*members.add(at)).xid));
        pg_sys::pfree(members.cast());
        found
    }
}

/// Returns whether a transaction is open, and is neither this one nor one of its subtransactions.
fn is_running_elsewhere(xid: pg_sys::TransactionId) -> bool {
    // SAFETY: both look the transaction id up.
    unsafe { !pg_sys::TransactionIdIsCurrentTransactionId(xid) && pg_sys::TransactionIdIsInProgress(xid) }
}
