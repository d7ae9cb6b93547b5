//! The schedule of a worker's jobs. It is in memory only: [`first_due`](super::first_due) says when a job is due after a restart.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use claims_model::backoff::Backoff;
use claims_model::due::{self, PAUSES};

/// A job that is repeated. Its strings are the foreign server of a service, and then the source type.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Job {
    /// Settles the leases of committed transactions of a cell at a service.
    Settle(i64, String),
    /// Runs a recovery pass of a cell at a service.
    Reconcile(i64, String),
    /// Shows a service that this database still acts as the cell.
    Show(i64, String),
    /// Gives the sequences of a cell their next ranges of ids.
    Refill(i64, String),
    /// Verifies a source type of a cell at a service.
    Verify(i64, String, String),
    Purge,
    /// Merges the pending entries of the index by which histories search the audit log.
    Index,
}

impl Job {
    /// Returns its kind in `claims.passes`.
    pub fn kind(&self) -> &'static str {
        match self {
            Job::Settle(..) => "settle",
            Job::Reconcile(..) => "reconcile",
            Job::Show(..) => "show",
            Job::Refill(..) => "refill",
            Job::Verify(..) => "verify",
            Job::Purge => "purge",
            Job::Index => "index",
        }
    }

    /// Returns whether `claims.passes` has no row of a run that had nothing to do. It has one of the first run that succeeds after a
    /// failure.
    pub fn logs_failures_only(&self) -> bool {
        matches!(self, Job::Settle(..) | Job::Refill(..) | Job::Index)
    }

    /// Returns its cell and source type.
    pub fn of(&self) -> (Option<i64>, Option<&str>) {
        match self {
            Job::Settle(cell_id, _) | Job::Reconcile(cell_id, _) | Job::Show(cell_id, _) | Job::Refill(cell_id, _) => {
                (Some(*cell_id), None)
            }
            Job::Verify(cell_id, _, source_type) => (Some(*cell_id), Some(source_type)),
            Job::Purge | Job::Index => (None, None),
        }
    }

    /// Returns the service that it calls.
    pub fn service(&self) -> Option<&str> {
        match self {
            Job::Settle(_, service) | Job::Reconcile(_, service) => Some(service),
            Job::Show(_, service) | Job::Refill(_, service) => Some(service),
            Job::Verify(_, service, _) => Some(service),
            Job::Purge | Job::Index => None,
        }
    }
}

impl std::fmt::Display for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = self.kind();
        match self.of() {
            (Some(cell_id), Some(source_type)) => write!(f, "claims: {kind} {source_type} of cell {cell_id}"),
            (Some(cell_id), None) => write!(f, "claims: {kind} for cell {cell_id}"),
            _ => write!(f, "claims: {kind}"),
        }
    }
}

struct NextTime {
    due: Instant,
    /// The pauses after further failures.
    pauses: Backoff,
    /// Whether the last run succeeded, and the log says so or does not say otherwise.
    is_known_good: bool,
}

#[derive(Default)]
pub struct Schedule(HashMap<Job, NextTime>);

impl Schedule {
    /// Returns whether a job is due. A new job is.
    pub fn is_due(&self, job: &Job) -> bool {
        self.0.get(job).is_none_or(|entry| entry.due <= Instant::now())
    }

    pub fn has(&self, job: &Job) -> bool {
        self.0.contains_key(job)
    }

    /// Adds a job that is due after a pause.
    pub fn begin(&mut self, job: Job, pause: Duration) {
        self.0.insert(job, NextTime { due: Instant::now() + pause, pauses: PAUSES, is_known_good: false });
    }

    /// Returns whether the last run of a job succeeded, in this process.
    pub fn is_known_good(&self, job: &Job) -> bool {
        self.0.get(job).is_some_and(|entry| entry.is_known_good)
    }

    /// Records that the job succeeded. It is due again after `interval`.
    pub fn done(&mut self, job: Job, interval: Duration) {
        self.0.insert(job, NextTime { due: Instant::now() + interval, pauses: PAUSES, is_known_good: true });
    }

    /// Records that the job failed. It is repeated soon, then with growing pauses of at most `interval`.
    pub fn failed(&mut self, job: Job, interval: Duration) {
        let mut pauses = self.0.get(&job).map_or(PAUSES, |entry| entry.pauses);
        let due = Instant::now() + due::after_failure(&mut pauses, interval);
        self.0.insert(job, NextTime { due, pauses, is_known_good: false });
    }

    /// Makes a job due at once.
    pub fn hurry(&mut self, job: &Job) {
        if let Some(entry) = self.0.get_mut(job) {
            entry.due = Instant::now();
        }
    }

    /// Records that a transaction has committed. Settling is due, and a look at the sequences, unless they are pausing after a failure.
    pub fn something_committed(&mut self) {
        for (job, entry) in &mut self.0 {
            if matches!(job, Job::Settle(..) | Job::Refill(..)) && entry.pauses.is_unused() {
                entry.due = Instant::now();
            }
        }
    }

    /// Removes all jobs except the wanted ones.
    pub fn retain(&mut self, is_wanted: impl Fn(&Job) -> bool) {
        self.0.retain(|job, _| is_wanted(job));
    }

    /// Returns the time until the next job, or `None` if there is none.
    pub fn next(&self) -> Option<Duration> {
        self.0.values().map(|entry| entry.due.saturating_duration_since(Instant::now())).min()
    }
}
