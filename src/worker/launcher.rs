//! The launcher: runs one worker for each database that `claims.databases` names.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::WORKER;
use crate::cell::wakeup::MAX_DATABASES;
use crate::error;
use crate::pg::background::{self, Worker};
use crate::settings;

/// How long to wait before a worker that has ended is restarted: at first, and at most. A worker ends if its database does
/// not exist, or with an unexpected error.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A worker that ran for this long starts again with the first pause.
const LONG_LIFE: Duration = Duration::from_secs(60);

/// The worker of a database.
struct Charge {
    worker: Option<Worker>,
    started: Instant,
    pause: Duration,
    /// When to restart it, if it has ended.
    due: Instant,
}

impl Charge {
    fn new() -> Self {
        let now = Instant::now();
        Charge { worker: None, started: now, pause: FIRST_PAUSE, due: now }
    }

    /// Starts the worker if it does not run and is due; returns how long to wait before the next check, if one is needed.
    fn attend_to(&mut self, database: &str) -> Option<Duration> {
        if self.worker.as_ref().is_some_and(Worker::has_ended) {
            self.worker = None;
            self.pause = if self.started.elapsed() >= LONG_LIFE { FIRST_PAUSE } else { self.pause };
            self.due = Instant::now() + self.pause;
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
        if self.worker.is_none() && self.due <= Instant::now() {
            self.started = Instant::now();
            self.worker = Worker::start(WORKER, database);
            if self.worker.is_none() {
                error::warn_of_no_place_for_worker(database);
                self.due = Instant::now() + LONGEST_PAUSE;
            }
        }
        self.worker.is_none().then(|| self.due.saturating_duration_since(Instant::now()))
    }
}

/// Main function of the launcher. Ends with its process.
pub fn run() {
    let mut charges: HashMap<String, Charge> = HashMap::new();
    loop {
        let mut databases = settings::databases();
        databases.truncate(MAX_DATABASES);
        let dismissed: Vec<_> = charges.keys().filter(|known| !databases.contains(known)).cloned().collect();
        for database in dismissed {
            if let Some(worker) = charges.remove(&database).and_then(|charge| charge.worker) {
                worker.stop();
            }
        }
        let attend =
            |database: &String| charges.entry(database.clone()).or_insert_with(Charge::new).attend_to(database);
        let next_look = databases.iter().filter_map(attend).min();
        // The latch is set when a worker ends and when settings are reloaded.
        background::sleep(next_look.map(|pause| pause.max(Duration::from_millis(10))));
    }
}
