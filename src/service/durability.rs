//! Makes commits durable that a cell relies on. They survive a crash of this server, and also its loss if an administrator
//! requires synchronous replication (`claims.require_synchronous`).
//!
//! The setting is checked when a call is admitted, and again right before the commit. So neither a later `synchronous_commit` of
//! the caller nor the removal of standbys can weaken what the cell relies on.

use std::cell::Cell;

use pgrx::pg_sys::panic::ErrorReport;

use super::errors::AdmissionError;
use crate::kernel::call::Call;
use crate::kernel::error::ClaimsError;
use crate::kernel::{settings, tables};
use pg::transaction_end::Hooks;
use pg::{replication, xact};

thread_local! {
    /// Whether this transaction's commit must be replicated.
    static REPLICATED: Cell<bool> = const { Cell::new(false) };
}

pub const HOOKS: Hooks = Hooks { before_commit, before_prepare, end, ..Hooks::NONE };

/// Raises an error if replication is required and there is no synchronous standby.
pub fn require_standby(call: &Call) -> Result<(), ClaimsError> {
    // Commits on other nodes are replicated as those nodes are configured, which this node does not check.
    if settings::require_synchronous() {
        call.tables.require_here()?;
        require_standby_here()?;
    }
    Ok(())
}

fn require_standby_here() -> Result<(), ClaimsError> {
    if replication::has_synchronous_standbys() { Ok(()) } else { Err(AdmissionError::NotReplicated.into()) }
}

/// Has this transaction's commit wait until its effects are safe, whatever its `synchronous_commit` is. Calls that report an
/// earlier commit need it, too: the session that committed may have been canceled while it waited for replication, and a
/// transaction that has written nothing waits for no standby.
pub fn promise() {
    xact::commit_durably();
    if settings::require_synchronous() && !REPLICATED.replace(true) {
        xact::write_something();
    }
}

fn before_commit() -> Result<(), ErrorReport> {
    if REPLICATED.get() {
        // The setting may have been turned off since the call promised it.
        if settings::require_synchronous() {
            tables::of_this_database().require_here()?;
            require_standby_here()?;
        }
        replication::commit_replicated();
    }
    Ok(())
}

/// Refuses PREPARE TRANSACTION: COMMIT PREPARED waits for standbys as set in the session that runs it, which is not checked here.
fn before_prepare() -> Result<(), ErrorReport> {
    if REPLICATED.get() {
        return Err(ClaimsError::from(AdmissionError::PreparedNotReplicated).into());
    }
    Ok(())
}

fn end() {
    REPLICATED.set(false);
}
