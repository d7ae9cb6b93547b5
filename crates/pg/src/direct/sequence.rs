//! Draws numbers for identity columns.

use pgrx::pg_sys;
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;

// The bindings of pgrx do not have this function.
unsafe extern "C-unwind" {
    fn nextval_internal(sequence: pg_sys::Oid, checks_permissions: bool) -> i64;
}

/// Draws the next number of a sequence. The role needs no rights on it.
///
/// # Safety
/// The sequence exists, and cannot be dropped meanwhile.
pub(super) unsafe fn next(sequence: pg_sys::Oid) -> i64 {
    // SAFETY: guaranteed by the caller. An error passes through no frame of Rust.
    unsafe { pg_guard_ffi_boundary(|| nextval_internal(sequence, false)) }
}

/// Returns the sequence of an identity column.
///
/// # Safety
/// The relation is open, and the column, by its number from 1, is an identity column.
pub(super) unsafe fn of_column(relation: pg_sys::Relation, number: usize) -> pg_sys::Oid {
    let number = i16::try_from(number).unwrap_or(0);
    // SAFETY: guaranteed by the caller.
    unsafe {
        #[cfg(any(feature = "pg15", feature = "pg16"))]
        let relation = (*relation).rd_id;
        pg_sys::getIdentitySequence(relation, number, false)
    }
}
