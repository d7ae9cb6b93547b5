//! Rows that other open transactions are writing: what no MVCC snapshot shows.
//!
//! A lock timeout does not tell what was waited for: another transaction's row, or the relation extension lock. This
//! look-up tells them apart. It searches an index with a dirty snapshot, as Postgres' own `check_exclusion_constraint()`
//! does, and takes no lock but the one on the table that reading it needs.

use std::ffi::CStr;

use pgrx::pg_sys;

use super::index::{KeyPart, Unusable, scan};

/// Whether another open transaction has inserted, changed, deleted or locked a row of table `claims.<table>` with this key,
/// by a unique index on it.
pub fn is_in_flight(table: &CStr, key: &[KeyPart]) -> Result<bool, Unusable> {
    let mut dirty = pg_sys::SnapshotData { snapshot_type: pg_sys::SnapshotType::SNAPSHOT_DIRTY, ..Default::default() };
    let dirty = &raw mut dirty;
    let mut found = false;
    // SAFETY: the snapshot outlives the scan; the visibility check of a dirty snapshot sets its xmin and xmax to the other
    // transaction, if there is one.
    unsafe {
        scan(table, key, dirty, |row| {
            let is_changing =
                (*dirty).xmin != pg_sys::InvalidTransactionId || (*dirty).xmax != pg_sys::InvalidTransactionId;
            found = is_changing || is_locked_elsewhere(row.slot());
            !found
        })?;
    }
    Ok(found)
}

/// Whether another open transaction has locked the row. A lock does not change the row, so a dirty snapshot does not
/// show it. A slot without a heap tuple on a page cannot tell, and counts as locked.
///
/// # Safety
/// The slot holds a row.
unsafe fn is_locked_elsewhere(slot: *mut pg_sys::TupleTableSlot) -> bool {
    // SAFETY: a slot of this kind pins the page that its tuple is on. Both fields change under the page's lock, and together.
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

/// Whether another open transaction is a member of a multixact. This one may be a member, several times: by itself
/// and by its savepoints.
fn has_member_elsewhere(multi: pg_sys::MultiXactId, infomask: u32) -> bool {
    let is_lock_only = infomask & pg_sys::HEAP_XMAX_LOCK_ONLY != 0;
    // Left by pg_upgrade from a version whose multixact ids have no meaning here (HEAP_LOCKED_UPGRADED).
    let strengths = pg_sys::HEAP_XMAX_EXCL_LOCK | pg_sys::HEAP_XMAX_KEYSHR_LOCK;
    let is_from_pgupgrade = is_lock_only && infomask & strengths == 0;
    let mut members = std::ptr::null_mut();
    // SAFETY: the members are as many as the call says, in memory of its own that is freed here.
    unsafe {
        let count = pg_sys::GetMultiXactIdMembers(multi, &mut members, is_from_pgupgrade, is_lock_only);
        let Some(count) = usize::try_from(count).ok().filter(|count| *count > 0) else { return false };
        let found = (0..count).any(|at| is_running_elsewhere((*members.add(at)).xid));
        pg_sys::pfree(members.cast());
        found
    }
}

/// Whether a transaction is open, and neither this one nor one of its subtransactions.
fn is_running_elsewhere(xid: pg_sys::TransactionId) -> bool {
    // SAFETY: both look the transaction id up.
    unsafe { !pg_sys::TransactionIdIsCurrentTransactionId(xid) && pg_sys::TransactionIdIsInProgress(xid) }
}
