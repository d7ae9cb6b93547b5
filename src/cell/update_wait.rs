//! Lets a call that finds older tables than the library wait until the worker of the database has updated the extension.
//!
//! The call waits in its transaction, which may hold locks of the application's tables and a snapshot. Neither is in the way of the update. A
//! transaction that holds a lock of a table of claims is: its call does not wait, and fails.

use std::time::{Duration, Instant};

use super::workers;
use crate::kernel::error::{VersionError, raise};
use crate::kernel::{settings, version};
use pg::{background, extension, wait, xact};

const SHORTEST_WAIT: Duration = Duration::from_secs(2);
/// How often a waiting call compares the versions.
const INTERVAL: Duration = Duration::from_millis(10);

/// Waits while the worker may be updating the extension, and at most for `claims.service_timeout` or two seconds. Returns at once if library
/// and tables have the same version. The caller compares them afterwards.
pub fn await_update() {
    if !version::are_tables_older() || !is_expected() {
        return;
    }
    let deadline = Instant::now() + settings::service_timeout().max(SHORTEST_WAIT);
    while version::are_tables_older() {
        if Instant::now() >= deadline || !workers::may_update_soon() {
            return;
        }
        wait::sleep(INTERVAL);
    }
    // Under READ COMMITTED the statements of the call have snapshots of their own.
    if xact::uses_transaction_snapshot() {
        raise::<()>(Err(VersionError::StaleExtension.into()));
    }
}

/// Returns whether a worker updates the extension of this database, and this transaction is not in its way.
fn is_expected() -> bool {
    settings::auto_update()
        && !background::is_worker()
        && !xact::is_in_recovery()
        && settings::databases().contains(&background::database_name())
        && !extension::holds_lock_of_member(c"claims")
}
