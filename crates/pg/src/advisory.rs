//! Advisory locks, for cases in which no row can be locked.

use pgrx::{IntoDatum, direct_function_call, pg_sys};

/// Takes the lock until the end of the transaction. Returns false if another session has it. Never waits.
pub fn try_lock(key: i64) -> bool {
    call(pg_sys::pg_try_advisory_xact_lock_int8, key)
}

/// Returns whether no other session has the lock. Never waits, and releases the lock at once.
pub fn is_free(key: i64) -> bool {
    call(pg_sys::pg_try_advisory_lock_shared_int8, key) && call(pg_sys::pg_advisory_unlock_shared_int8, key)
}

fn call(function: unsafe fn(pg_sys::FunctionCallInfo) -> pg_sys::Datum, key: i64) -> bool {
    // SAFETY: all three take one bigint and return a boolean.
    unsafe { direct_function_call::<bool>(function, &[key.into_datum()]) }.unwrap_or(false)
}
