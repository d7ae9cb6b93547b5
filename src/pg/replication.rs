//! Synchronous replication of the transaction that is under way.

use std::ffi::c_int;

use pgrx::pg_sys;

use super::settings::set_local;

/// Whether `synchronous_standby_names` names anybody.
pub fn has_synchronous_standbys() -> bool {
    // SAFETY: a backend variable: NULL, or a C string that lives until the setting is changed.
    unsafe {
        let names = pg_sys::SyncRepStandbyNames;
        pg_sys::max_wal_senders > 0 && !names.is_null() && *names != 0
    }
}

/// Has this transaction's COMMIT wait for the synchronous standbys to flush it, whatever `synchronous_commit` is. To be called
/// right before the commit, when nothing of the caller's can change the setting any more.
pub fn commit_replicated() {
    // SAFETY: reads a backend variable.
    let callers = unsafe { pg_sys::synchronous_commit };
    if callers < pg_sys::SyncCommitLevel::SYNCHRONOUS_COMMIT_REMOTE_FLUSH as c_int {
        set_local(c"synchronous_commit", c"on");
    }
}
