//! Synchronous replication of the current transaction.

use std::ffi::c_int;

use pgrx::pg_sys;

use super::settings::set_local;
use super::xact;

/// Returns whether `synchronous_standby_names` is set.
pub fn has_synchronous_standbys() -> bool {
    // SAFETY: a backend variable: NULL, or a C string that lives until the setting is changed.
    unsafe {
        let names = pg_sys::SyncRepStandbyNames;
        pg_sys::max_wal_senders > 0 && !names.is_null() && *names != 0
    }
}

/// Makes COMMIT of this transaction wait until the synchronous standbys have flushed it, whatever `synchronous_commit`
/// is. Must be called right before the commit, when no code of the caller can change the setting any more.
pub fn commit_replicated() {
    xact::commit_as_set();
    // SAFETY: reads a backend variable.
    let callers = unsafe { pg_sys::synchronous_commit };
    if callers < pg_sys::SyncCommitLevel::SYNCHRONOUS_COMMIT_REMOTE_FLUSH as c_int {
        set_local(c"synchronous_commit", c"on");
    }
}
