//! Facts about transactions.

use pgrx::pg_sys;

/// Whether the transaction keeps one snapshot for all its statements (REPEATABLE READ, SERIALIZABLE).
pub fn keeps_one_snapshot() -> bool {
    // SAFETY: reads a backend variable.
    unsafe { pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as i32 }
}

/// Whether another session's transaction with this id, read off a row's xmax, is still open.
pub fn is_open_elsewhere(xmax: u32) -> bool {
    let xid = pg_sys::TransactionId::from(xmax);
    if xmax < pg_sys::FirstNormalTransactionId.into_inner() {
        return false;
    }
    // SAFETY: both only look ids up in shared memory.
    unsafe { !pg_sys::TransactionIdIsCurrentTransactionId(xid) && pg_sys::TransactionIdIsInProgress(xid) }
}
