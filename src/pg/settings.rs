//! Changing a setting for the rest of the running function.

use std::ffi::CString;

use pgrx::pg_sys;

/// Sets `lock_timeout` until the calling function or the open subtransaction ends, whichever comes first; Postgres
/// puts the caller's value back, also after an error. Zero would switch the timeout off, so it means one millisecond.
pub fn limit_lock_waits(milliseconds: i64) {
    let value = CString::new(milliseconds.clamp(1, i32::MAX.into()).to_string()).unwrap_or_default();
    // SAFETY: a known setting with a valid value; GUC_ACTION_SAVE ties it to the open nest level, which every function
    // with SET clauses has of its own.
    unsafe {
        pg_sys::set_config_option(
            c"lock_timeout".as_ptr(),
            value.as_ptr(),
            pg_sys::GucContext::PGC_USERSET,
            pg_sys::GucSource::PGC_S_SESSION,
            pg_sys::GucAction::GUC_ACTION_SAVE,
            true,
            0,
            false,
        );
    }
}

/// Refuses every other setting that begins with `claims.`: a misspelt one is an error and not silence.
pub fn reserve_prefix() {
    // SAFETY: a constant string.
    unsafe { pg_sys::MarkGUCPrefixReserved(c"claims".as_ptr()) };
}
