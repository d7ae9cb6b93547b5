//! What a cell was told must survive: a crash of this server always, and the loss of this server where an administrator
//! requires synchronous replication (`claims.require_synchronous`).
//!
//! The setting is asked when a call is admitted and once more right before the commit, so that neither a `synchronous_commit` that
//! the caller sets meanwhile nor standbys that are taken away can change what the cell relies on.

use std::cell::Cell;

use pgrx::pg_sys::panic::ErrorReport;

use crate::distribution;
use crate::error::{AdmissionError, ClaimsError};
use crate::pg::transaction_end::Hooks;
use crate::pg::{replication, xact};
use crate::settings;

thread_local! {
    /// This transaction's commit must be replicated.
    static REPLICATED: Cell<bool> = const { Cell::new(false) };
}

pub const HOOKS: Hooks = Hooks { before_commit, before_prepare, end, ..Hooks::NONE };

/// Raises where replication is required and there is no synchronous standby.
pub fn require_standby() -> Result<(), ClaimsError> {
    // What is committed on other nodes is replicated as those are set, and nobody here asks them.
    if settings::require_synchronous() {
        distribution::require_here()?;
    }
    if settings::require_synchronous() && !replication::has_synchronous_standbys() {
        return Err(AdmissionError::NotReplicated.into());
    }
    Ok(())
}

/// Has the commit of this transaction wait until what it tells a cell is safe, whatever its `synchronous_commit` is. Also for
/// answers of what was committed before: whoever waited for that commit may have been cancelled while it was not replicated, and
/// a transaction that has written nothing waits for no standby.
pub fn promise() {
    xact::commit_durably();
    if settings::require_synchronous() && !REPLICATED.replace(true) {
        xact::write_something();
    }
}

fn before_commit() -> Result<(), ErrorReport> {
    if REPLICATED.get() {
        require_standby()?;
        replication::commit_replicated();
    }
    Ok(())
}

/// COMMIT PREPARED waits for standbys as the session says that runs it, and nobody asks here what it says.
fn before_prepare() -> Result<(), ErrorReport> {
    if REPLICATED.get() {
        return Err(ClaimsError::from(AdmissionError::PreparedNotReplicated).into());
    }
    Ok(())
}

fn end() {
    REPLICATED.set(false);
}
