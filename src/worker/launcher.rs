//! The launcher: runs the workers of each database that `claims.databases` names.
//!
//! A launcher may end; another one begins five seconds later. Workers that the first one started continue to run, and
//! the second one finds them in shared memory ([`workers`]).

use std::collections::HashMap;
use std::time::{Duration, Instant};

use claims_model::backoff::Backoff;
use claims_model::due::{LONGEST_PAUSE, PAUSES};

use super::WORKERS;
use crate::cell::wakeup::MAX_DATABASES;
use crate::cell::workers::{self, Duty, RunningWorker};
use crate::pg::background::{self, Worker};
use crate::{error, settings};

/// A worker that ran for this long is restarted after the first pause.
const LONG_LIFE: Duration = Duration::from_secs(60);

/// A worker that should run.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Position {
    /// Its name in `pg_stat_activity`.
    worker: &'static str,
    duty: Duty,
    database: String,
}

impl Position {
    fn is_of(&self, worker: &RunningWorker) -> bool {
        self.duty == worker.duty && self.database == worker.database
    }
}

/// Returns the workers that should run. If the server has too few slots, the first ones get them.
fn positions() -> Vec<Position> {
    let mut databases = settings::databases();
    databases.truncate(MAX_DATABASES);
    let is_wanted = |duty: &Duty| *duty == Duty::Recovery || settings::verify_interval().is_some();
    let of_duty = |(duty, worker)| {
        let position = move |database: &String| Position { worker, duty, database: database.clone() };
        databases.iter().map(position)
    };
    WORKERS.into_iter().filter(|(duty, _)| is_wanted(duty)).flat_map(of_duty).collect()
}

/// The worker of a position, if this launcher has started it.
struct Supervision {
    worker: Option<Worker>,
    started: Instant,
    /// The pauses before restarts. A worker ends if its database does not exist, or with an unexpected error.
    pauses: Backoff,
    /// When to restart it after it has ended.
    due: Instant,
}

impl Supervision {
    fn new() -> Self {
        let now = Instant::now();
        Supervision { worker: None, started: now, pauses: PAUSES, due: now }
    }

    /// Starts the worker if none is running and it is due. Returns how long to wait before the next check, if one is
    /// needed.
    fn attend_to(&mut self, position: &Position, is_running: bool) -> Option<Duration> {
        if self.worker.as_ref().is_some_and(Worker::has_ended) {
            self.worker = None;
            if self.started.elapsed() >= LONG_LIFE {
                self.pauses = PAUSES;
            }
            self.due = Instant::now() + self.pauses.pause();
        }
        // An earlier launcher may have started the worker. This launcher is woken when it ends.
        if is_running {
            return None;
        }
        if self.worker.is_none() && self.due <= Instant::now() {
            self.started = Instant::now();
            self.worker = Worker::start(position.worker, &position.database);
            if self.worker.is_none() {
                error::warn_of_no_slot_for_worker(position.worker, &position.database);
                self.due = Instant::now() + LONGEST_PAUSE;
            }
        }
        self.worker.is_none().then(|| self.due.saturating_duration_since(Instant::now()))
    }
}

/// Runs the launcher until its process ends.
pub fn run() {
    workers::become_launcher();
    let mut supervised: HashMap<Position, Supervision> = HashMap::new();
    loop {
        let (positions, running) = (positions(), workers::running_workers());
        dismiss(&positions, &mut supervised, &running);
        let attend = |position: &Position| {
            let is_running = running.iter().any(|worker| position.is_of(worker));
            supervised.entry(position.clone()).or_insert_with(Supervision::new).attend_to(position, is_running)
        };
        let next_check = positions.iter().filter_map(attend).min();
        // The latch is set when a worker begins or ends, and when settings are reloaded.
        background::sleep(next_check.map(|pause| pause.max(Duration::from_millis(10))));
    }
}

/// Ends the workers that should not run, also those that an earlier launcher has started, and those that have not begun
/// yet.
fn dismiss(positions: &[Position], supervised: &mut HashMap<Position, Supervision>, running: &[RunningWorker]) {
    let dismissed: Vec<_> = supervised.keys().filter(|position| !positions.contains(position)).cloned().collect();
    for worker in dismissed.into_iter().filter_map(|position| supervised.remove(&position)?.worker) {
        worker.stop();
    }
    for worker in running.iter().filter(|worker| !positions.iter().any(|position| position.is_of(worker))) {
        background::terminate(worker.pid);
    }
}
