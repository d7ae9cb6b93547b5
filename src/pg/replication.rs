//! Synchronous replication of the transaction that is under way.

use std::ffi::c_int;

use pgrx::pg_sys;

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
    // SAFETY: a known setting with a value that it takes. The nest level is the transaction's, so it is restored at its end.
    unsafe {
        if pg_sys::synchronous_commit < pg_sys::SyncCommitLevel::SYNCHRONOUS_COMMIT_REMOTE_FLUSH as c_int {
            pg_sys::set_config_option(
                c"synchronous_commit".as_ptr(),
                c"on".as_ptr(),
                pg_sys::GucContext::PGC_USERSET,
                pg_sys::GucSource::PGC_S_SESSION,
                pg_sys::GucAction::GUC_ACTION_LOCAL,
                true,
                0,
                false,
            );
        }
    }
}
