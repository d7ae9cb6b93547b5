//! The schedule of a worker's jobs. Kept in memory: after a restart everything is due at once.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The pause after a failure: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A job that is done repeatedly.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Job {
    /// Settle leases of committed transactions; for a cell.
    Settle(i64),
    /// A pass of recovery; for a cell.
    Reconcile(i64),
    /// For a cell and a source type.
    Verify(i64, String),
    Purge,
}

impl Job {
    /// Its kind in `claims.passes`.
    pub fn kind(&self) -> &'static str {
        match self {
            Job::Settle(_) => "settle",
            Job::Reconcile(_) => "reconcile",
            Job::Verify(..) => "verify",
            Job::Purge => "purge",
        }
    }

    /// Its cell and source type.
    pub fn of(&self) -> (Option<i64>, Option<&str>) {
        match self {
            Job::Settle(cell_id) | Job::Reconcile(cell_id) => (Some(*cell_id), None),
            Job::Verify(cell_id, source_type) => (Some(*cell_id), Some(source_type)),
            Job::Purge => (None, None),
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
    /// After the next failure.
    pause: Duration,
}

#[derive(Default)]
pub struct Schedule(HashMap<Job, NextTime>);

impl Schedule {
    /// Whether a job is due. An unknown job is.
    pub fn is_due(&self, job: &Job) -> bool {
        self.0.get(job).is_none_or(|entry| entry.due <= Instant::now())
    }

    /// The job was done; it is due again after `interval`.
    pub fn done(&mut self, job: Job, interval: Duration) {
        self.0.insert(job, NextTime { due: Instant::now() + interval, pause: FIRST_PAUSE });
    }

    /// The job failed: it is repeated soon, then with growing pauses, of at most `interval`.
    pub fn failed(&mut self, job: Job, interval: Duration) {
        let pause = self.0.get(&job).map_or(FIRST_PAUSE, |entry| entry.pause);
        let due = Instant::now() + pause.min(interval.max(FIRST_PAUSE));
        self.0.insert(job, NextTime { due, pause: (pause * 2).min(LONGEST_PAUSE) });
    }

    /// A transaction has committed: settling is due, unless it has failed.
    pub fn something_committed(&mut self) {
        for (job, entry) in &mut self.0 {
            if matches!(job, Job::Settle(_)) && entry.pause == FIRST_PAUSE {
                entry.due = Instant::now();
            }
        }
    }

    /// Keeps only these jobs.
    pub fn retain(&mut self, is_wanted: impl Fn(&Job) -> bool) {
        self.0.retain(|job, _| is_wanted(job));
    }

    /// How long until the next job; `None`: there is none.
    pub fn next(&self) -> Option<Duration> {
        self.0.values().map(|entry| entry.due.saturating_duration_since(Instant::now())).min()
    }
}
