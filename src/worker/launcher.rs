//! The launcher: runs the workers of each database that `claims.databases` names.
//!
//! A launcher may end; another one begins five seconds later. Workers that the first one started continue to run, and
//! the second one finds them in shared memory ([`workers`]).

use crate::worker::errors::warn_of_no_slot_for_worker;
use std::collections::HashMap;
use std::time::Duration;

use super::WORKERS;
use super::supervision::Supervision;
use crate::cell::wakeup::MAX_DATABASES;
use crate::cell::workers::{self, Duty, RunningWorker};
use crate::kernel::settings;
use pg::background::{self, Worker};

/// A worker that should run.
#[derive(Clone, PartialEq, Eq, Hash)]
struct WantedWorker {
    /// Its name in `pg_stat_activity`.
    worker: &'static str,
    duty: Duty,
    database: String,
}

impl WantedWorker {
    /// Returns whether a worker may run because this one should. Workers for single services belong to that of their database.
    fn allows(&self, worker: &RunningWorker) -> bool {
        self.duty == worker.duty && self.database == worker.database
    }

    fn is_of(&self, worker: &RunningWorker) -> bool {
        self.allows(worker) && worker.server.is_none()
    }

    fn start(&self) -> Option<Worker> {
        let started = Worker::start(self.worker, &self.database);
        if started.is_none() {
            warn_of_no_slot_for_worker(self.worker, &self.database);
        }
        started
    }
}

/// Returns the workers that should run. If the server has too few slots, the first ones get them.
fn positions() -> Vec<WantedWorker> {
    let mut databases = settings::databases();
    databases.truncate(MAX_DATABASES);
    let is_wanted = |duty: &Duty| *duty == Duty::Recovery || settings::verify_interval().is_some();
    let of_duty = |(duty, worker)| {
        let position = move |database: &String| WantedWorker { worker, duty, database: database.clone() };
        databases.iter().map(position)
    };
    WORKERS.into_iter().filter(|(duty, _)| is_wanted(duty)).flat_map(of_duty).collect()
}

/// Runs the launcher until its process ends.
pub fn run() {
    workers::become_launcher();
    let mut supervised: HashMap<WantedWorker, Supervision> = HashMap::new();
    loop {
        let (positions, running) = (positions(), workers::running_workers());
        dismiss(&positions, &mut supervised, &running);
        let attend = |position: &WantedWorker| {
            let is_running = running.iter().any(|worker| position.is_of(worker));
            supervised.entry(position.clone()).or_default().attend_to(is_running, || position.start())
        };
        let next_check = positions.iter().filter_map(attend).min();
        // The latch is set when a worker begins or ends, and when settings are reloaded.
        background::sleep(next_check.map(|pause| pause.max(Duration::from_millis(10))));
    }
}

/// Ends the workers that should not run, also those that an earlier launcher has started, and those that have not begun
/// yet.
fn dismiss(positions: &[WantedWorker], supervised: &mut HashMap<WantedWorker, Supervision>, running: &[RunningWorker]) {
    let dismissed: Vec<_> = supervised.keys().filter(|position| !positions.contains(position)).cloned().collect();
    for worker in dismissed.into_iter().filter_map(|position| supervised.remove(&position)?.into_worker()) {
        worker.stop();
    }
    for worker in running.iter().filter(|worker| !positions.iter().any(|position| position.allows(worker))) {
        background::terminate(worker.pid);
    }
}
