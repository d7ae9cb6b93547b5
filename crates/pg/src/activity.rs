//! Shows in `pg_stat_activity` what a call is doing. The text needs no shared memory of its own, does not outlive the call,
//! and disappears with the process.

use std::ffi::CString;

use pgrx::pg_sys;

/// Shows what this process is doing, in place of the client's statement. `None` means idle.
pub fn show(doing: Option<&str>) {
    let state = match doing {
        Some(_) => pg_sys::BackendState::STATE_RUNNING,
        None => pg_sys::BackendState::STATE_IDLE,
    };
    let text = CString::new(doing.unwrap_or_default()).unwrap_or_default();
    // SAFETY: copies the text into this process' own entry.
    unsafe { pg_sys::pgstat_report_activity(state, text.as_ptr()) };
}

/// A guard that restores the client's statement when it is dropped.
pub struct Activity {
    not_send: std::marker::PhantomData<*mut ()>,
}

impl Activity {
    pub fn begin() -> Self {
        Activity { not_send: std::marker::PhantomData }
    }

    /// Shows a text until the guard is dropped.
    pub fn tell(&self, text: &str) {
        show(Some(text));
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        // SAFETY: the client's statement is in memory as long as it runs; NULL, outside of one, is allowed.
        unsafe { pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_RUNNING, pg_sys::debug_query_string) };
    }
}
