//! Says when a worker's jobs are due: after a start, after a success and after a failure.

use std::time::Duration;

use crate::backoff::Backoff;
use crate::hash::fnv1a;

/// The pause after the first failure of a job.
pub const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Maximum pause after a failure.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The pauses after failures of a job, and before a worker that has ended is restarted.
pub const PAUSES: Backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
/// Maximum time by which the first verification is late.
pub const MAX_DELAY: Duration = Duration::from_secs(600);
/// How long the service keeps the verification slot of a cell that is not heard of.
pub const SLOT_HELD_FOR: Duration = Duration::from_secs(120);
/// How often a verification that continues tells the service so.
pub const SLOT_EXTEND_INTERVAL: Duration = Duration::from_secs(20);

/// Returns what is left of the interval, if the last successful run ended so many seconds ago. `None` says that there was none. A
/// clock that was set back makes no job wait for longer than its interval.
pub fn left_of_interval(elapsed_seconds: Option<f64>, interval: Duration) -> Duration {
    let Some(elapsed) = elapsed_seconds else { return Duration::ZERO };
    interval - Duration::from_secs_f64(elapsed.clamp(0.0, interval.as_secs_f64())).min(interval)
}

/// Returns a delay that differs between the cells of a fleet, which may all have been started at the same moment.
pub fn delay(database: &str, cell_id: i64, interval: Duration) -> Duration {
    let hash = fnv1a(database.bytes().chain(cell_id.to_ne_bytes()));
    let longest = u64::try_from(MAX_DELAY.min(interval / 2).as_millis()).unwrap_or(0).max(1);
    Duration::from_millis(hash % longest)
}

/// Returns the pause before a failed job is repeated: soon, then with growing pauses of at most `interval`.
pub fn after_failure(pauses: &mut Backoff, interval: Duration) -> Duration {
    pauses.pause().min(interval.max(FIRST_PAUSE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_goes_on_over_a_restart() {
        let day = Duration::from_secs(86_400);
        let left = |elapsed| left_of_interval(elapsed, day).as_secs();
        assert_eq!(
            [None, Some(0.0), Some(86_000.0), Some(1e9), Some(-50.0), Some(f64::INFINITY)].map(left),
            [0, 86_400, 400, 0, 86_400, 0]
        );
        assert_eq!(left_of_interval(Some(0.5), Duration::ZERO), Duration::ZERO);
        assert_eq!(left_of_interval(Some(1e30), Duration::MAX / 2), Duration::ZERO);
    }

    #[test]
    fn a_failed_job_is_repeated_within_its_interval() {
        let mut pauses = PAUSES;
        let pause = |pauses: &mut Backoff| after_failure(pauses, Duration::from_secs(3)).as_secs();
        assert_eq!([pause(&mut pauses), pause(&mut pauses), pause(&mut pauses), pause(&mut pauses)], [1, 2, 3, 3]);
        assert_eq!(after_failure(&mut PAUSES.clone(), Duration::ZERO), FIRST_PAUSE);
    }

    #[test]
    fn a_delay_is_less_than_half_an_interval() {
        for cell_id in 0..500 {
            assert!(delay("1-5", cell_id, Duration::from_secs(10)) < Duration::from_secs(5));
            assert!(delay("1-5", cell_id, Duration::from_secs(86_400)) < MAX_DELAY);
            assert_eq!(delay("1-5", cell_id, Duration::ZERO), Duration::ZERO);
        }
    }
}
