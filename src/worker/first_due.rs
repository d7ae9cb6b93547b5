//! The time of a job's first run after the worker has started. Intervals continue over restarts: `claims.passes` has the last runs.

use std::time::Duration;

use claims_model::due;

use super::schedule::Job;
use crate::kernel::pass_log;
use pg::background::{self, transaction};
use pg::clock::Moment;
use pg::spi::{self, Connection};

/// Returns how long to wait for the first run of a job that is repeated after `interval`. Settling and recovery do not wait: leases may
/// have been left outstanding before the start.
pub fn pause(job: &Job, interval: Duration) -> Duration {
    match job {
        Job::Verify(cell_id, ..) => {
            since_last(job, interval) + due::delay(&background::database_identity(), *cell_id, interval)
        }
        Job::Purge => since_last(job, interval),
        _ => Duration::ZERO,
    }
}

/// Returns what is left of the interval since the last run that succeeded.
fn since_last(job: &Job, interval: Duration) -> Duration {
    let (cell_id, source_type) = job.of();
    let last = |connection: &Connection| pass_log::last(connection, job.kind(), cell_id, source_type, job.service());
    let last = transaction(|| spi::connect(last));
    due::left_of_interval(last.map(|last| last.seconds_until(Moment::now())), interval)
}
