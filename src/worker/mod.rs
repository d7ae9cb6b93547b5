//! Background work, where the library is preloaded: each database of `claims.databases` has a worker that settles what
//! committed, recovers, verifies and drops what is old. A launcher starts the workers and starts them again.
//!
//! Nobody depends on it: what a worker leaves undone, `claims.reconcile()` and the purging functions do when they are
//! called. docs/cell/worker.md says what it does when.

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
