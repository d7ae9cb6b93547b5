//! Starts a worker, and restarts it after it has ended.

use std::time::{Duration, Instant};

use claims_model::backoff::Backoff;
use claims_model::due::{LONGEST_PAUSE, PAUSES};

use pg::background::Worker;

/// A worker that ran for this long is restarted after the first pause.
const LONG_LIFE: Duration = Duration::from_secs(60);

/// A worker that should run.
pub struct Supervision {
    /// The worker, if this process has started it.
    worker: Option<Worker>,
    started: Instant,
    /// The pauses before restarts. A worker ends if its database does not exist, or with an unexpected error.
    pauses: Backoff,
    /// When to restart it after it has ended.
    due: Instant,
    /// Whether the server had no room for it at the last attempt.
    has_no_room: bool,
}

impl Default for Supervision {
    fn default() -> Self {
        let now = Instant::now();
        Supervision { worker: None, started: now, pauses: PAUSES, due: now, has_no_room: false }
    }
}

impl Supervision {
    /// Starts the worker if none is running and it is due. Returns how long to wait before the next check, if one is
    /// needed.
    pub fn attend_to(&mut self, is_running: bool, start: impl FnOnce() -> Option<Worker>) -> Option<Duration> {
        if self.worker.as_ref().is_some_and(Worker::has_ended) {
            self.worker = None;
            if self.started.elapsed() >= LONG_LIFE {
                self.pauses = PAUSES;
            }
            self.due = Instant::now() + self.pauses.pause();
        }
        // An earlier process may have started the worker. This process is woken when it ends.
        if is_running {
            self.has_no_room = false;
            return None;
        }
        if self.worker.is_none() && self.due <= Instant::now() {
            self.started = Instant::now();
            self.worker = start();
            self.has_no_room = self.worker.is_none();
            if self.has_no_room {
                self.due = Instant::now() + LONGEST_PAUSE;
            }
        }
        self.worker.is_none().then(|| self.due.saturating_duration_since(Instant::now()))
    }

    /// Returns whether the server had no room for the worker.
    pub fn has_no_room(&self) -> bool {
        self.has_no_room
    }

    /// Returns the worker, if this process has started it.
    pub fn into_worker(self) -> Option<Worker> {
        self.worker
    }
}
