//! Facts about transactions.

use pgrx::pg_sys;

/// Whether the transaction keeps one snapshot for all its statements (REPEATABLE READ, SERIALIZABLE).
pub fn keeps_one_snapshot() -> bool {
    // SAFETY: reads a backend variable.
    unsafe { pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as i32 }
}
