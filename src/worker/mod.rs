//! Background workers, if the library is preloaded: each database of `claims.databases` has a worker that settles committed
//! leases, recovers, verifies and purges. A launcher starts and restarts the workers.
//!
//! They are optional: `claims.reconcile()` and the purging functions do the same when they are
//! called. docs/cell/worker.md says what a worker does when.

mod attendance;
mod ground;
mod launcher;
mod schedule;

use crate::pg::background::{self, Mains};
use crate::pg::shared;

const LAUNCHER: &str = "claims launcher";
const WORKER: &str = "claims worker";

/// Called while the library is loaded.
pub fn register() {
    if shared::is_being_preloaded() {
        background::register(Mains { launcher: launcher::run, worker: attendance::run }, LAUNCHER);
    }
}
