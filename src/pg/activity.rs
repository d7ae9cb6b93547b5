//! What other sessions can see of a call while it runs: the text in `pg_stat_activity`, where background processes show
//! what they are doing, too. It needs no shared memory of its own, outlives no call, and is gone with the process.

use std::ffi::CString;

use pgrx::pg_sys;

/// Shows texts in place of the client's statement, until it is dropped.
pub struct Activity {
    not_send: std::marker::PhantomData<*mut ()>,
}

impl Activity {
    pub fn begin() -> Self {
        Activity { not_send: std::marker::PhantomData }
    }

    /// Shows a text.
    pub fn show(&self, text: &str) {
        let text = CString::new(text).unwrap_or_default();
        // SAFETY: copies the text into this backend's own entry.
        unsafe { pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_RUNNING, text.as_ptr()) };
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        // SAFETY: the client's statement is in memory as long as it runs; NULL, outside of one, is allowed.
        unsafe { pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_RUNNING, pg_sys::debug_query_string) };
    }
}
