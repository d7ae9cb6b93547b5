//! The time of a job's first run after the worker has started. Intervals go on over restarts: `claims.passes` has the last runs.

use std::time::Duration;

use claims_model::hash::fnv1a;

use super::schedule::Job;
use crate::pg::background::{self, transaction};
use crate::pg::clock::Moment;
use crate::pg::spi;
use crate::store::pass_log;

/// Maximum time by which the first verification is late.
const MAX_DELAY: Duration = Duration::from_secs(600);

/// Returns how long to wait for the first run of a job that is repeated after `interval`. Settling and recovery do not wait: leases may
/// have been left outstanding before the start.
pub fn pause(job: &Job, interval: Duration) -> Duration {
    match job {
        Job::Verify(cell_id, _) => since_last(job, interval) + delay(*cell_id, interval),
        Job::Purge => since_last(job, interval),
        _ => Duration::ZERO,
    }
}

/// Returns what is left of the interval since the last run that succeeded.
fn since_last(job: &Job, interval: Duration) -> Duration {
    let (cell_id, source_type) = job.of();
    let last = transaction(|| spi::connect(|connection| pass_log::last(connection, job.kind(), cell_id, source_type)));
    let Some(last) = last else { return Duration::ZERO };
    // A clock that was set back makes no job wait for longer than its interval.
    let elapsed = Duration::from_secs_f64(last.seconds_until(Moment::now()).clamp(0.0, interval.as_secs_f64()));
    interval - elapsed
}

/// Returns a delay that differs between the cells of a fleet, which may all have been started at the same moment.
fn delay(cell_id: i64, interval: Duration) -> Duration {
    let database = background::database_identity();
    let hash = fnv1a(database.bytes().chain(cell_id.to_ne_bytes()));
    let longest = u64::try_from(MAX_DELAY.min(interval / 2).as_millis()).unwrap_or(0).max(1);
    Duration::from_millis(hash % longest)
}
