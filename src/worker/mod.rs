//! Background workers, if the library is preloaded. Each database of `claims.databases` has a worker that settles
//! committed leases, recovers and purges. If `claims.verify_interval` is set, it has another one that verifies. A
//! launcher starts and restarts them. The worker of a database whose cells have
//! several services starts one for each of them.
//!
//! They are optional: `claims.reconcile()` and the purging functions do the same when they are called.
//! docs/cell/connection.md#the-background-worker describes the jobs and their times.

mod attendance;
mod committed_leases;
mod errors;
mod feed_holders;
mod first_due;
mod launcher;
mod own_transactions;
mod purge;
mod recorder;
mod schedule;
mod service_workers;
mod supervision;
mod update;

use pgrx::pg_sys::Oid;

use crate::cell::workers::Duty;
use pg::background::{self, Mains};
use pg::shared;

const LAUNCHER: &str = "claims launcher";

/// The names of the workers in `pg_stat_activity`.
const WORKERS: [(Duty, &str); 2] = [(Duty::Recovery, WORKER), (Duty::Verification, "claims verifier")];
const WORKER: &str = "claims worker";

/// Registers the launcher. Called while the library is loaded.
pub fn register() {
    if shared::is_being_preloaded() {
        background::register(Mains { launcher: launcher::run, worker: run_worker, helper: run_for_service }, LAUNCHER);
    }
}

fn run_worker(name: &str, database: &str) {
    if let Some((duty, _)) = WORKERS.into_iter().find(|(_, of)| *of == name) {
        attendance::run(duty, None, database);
    }
}

fn run_for_service(server: u32, database: &str) {
    attendance::run(Duty::Recovery, Some(Oid::from(server)), database);
}
