//! A rate limit over any period, in one number that processes can share. The number is the time at which the next event
//! would be due at an even pace. An event is allowed if that is at most a second ahead.

use std::time::Duration;

use crate::limits::MAX_COMPARED;

/// The largest burst, as the time in which it would come at an even pace, in microseconds.
const BURST_US: i64 = 1_000_000;

/// The number of records that count as one event.
pub const RECORDS: i64 = 1000;
/// The most events that one call can count as.
const MOST_EVENTS: i64 = MAX_COMPARED as i64 / RECORDS;

/// Returns the new value of `due` if another event at `now` is allowed, and otherwise the time from which it is.
pub fn next(due: i64, now: i64, per_second: i32) -> Result<i64, i64> {
    next_records(due, now, per_second, RECORDS)
}

/// Like [`next`], for a number of records: a thousand of them count as one event, fewer as a part of one. More are allowed as soon as
/// one event is, and what comes after them waits until all of them have had their time.
pub fn next_records(due: i64, now: i64, per_second: i32, records: i64) -> Result<i64, i64> {
    let pace = (BURST_US / i64::from(per_second.max(1))).max(1);
    let time = (pace * records.clamp(1, MOST_EVENTS * RECORDS) / RECORDS).max(1);
    // After the clock was set back, nobody waits for longer than after the largest call.
    let due = due.clamp(now, now.saturating_add(BURST_US + MOST_EVENTS * pace));
    let needed = due.saturating_add(time.min(pace));
    if needed <= now.saturating_add(BURST_US) {
        Ok(due.saturating_add(time))
    } else {
        Err(needed.saturating_sub(BURST_US))
    }
}

/// The pace of work that one process does in batches. After a batch the next one is due when the rows of that one have had their time.
/// Time that passes without work gives no right to more rows later.
#[derive(Debug, Clone, Copy, Default)]
pub struct BatchPace {
    rows_per_second: Option<f64>,
    /// When the next batch is due, since the work began.
    due: Duration,
}

impl BatchPace {
    pub fn new(rows_per_second: Option<f64>) -> Self {
        BatchPace { rows_per_second, due: Duration::ZERO }
    }

    /// Returns how long to wait for the next batch.
    pub fn pause(&self, now: Duration) -> Duration {
        self.due.saturating_sub(now)
    }

    /// Records that a batch of so many rows has begun at `began`.
    pub fn add(&mut self, began: Duration, rows: i64) {
        if let Some(rows_per_second) = self.rows_per_second {
            let seconds = rows.max(0) as f64 / rows_per_second.max(f64::MIN_POSITIVE);
            let time = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
            self.due = self.due.max(began).saturating_add(time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of allowed events, when one comes every `step` microseconds for `micros` microseconds.
    fn admitted(per_second: i32, step: i64, micros: i64) -> usize {
        let mut due = 0;
        (0..micros / step)
            .filter(|n| match next(due, 5_000_000 + n * step, per_second) {
                Ok(after) => {
                    due = after;
                    true
                }
                Err(_) => false,
            })
            .count()
    }

    #[test]
    fn a_flood_is_cut_to_the_rate_and_one_burst() {
        assert_eq!(admitted(10, 100, 10_000_000), 109);
        assert_eq!(admitted(1, 100, 3_000_000), 3);
        assert_eq!(admitted(1000, 10, 2_000_000), 2999);
    }

    #[test]
    fn a_thousand_records_count_as_one_event() {
        // Batches of so many records are sent as fast as they are allowed, for ten seconds at one event a second.
        let sent = |records: i64| {
            let mut due = 0;
            let allowed = (0..100_000).filter(|n| match next_records(due, 5_000_000 + n * 100, 1, records) {
                Ok(after) => {
                    due = after;
                    true
                }
                Err(_) => false,
            });
            allowed.count() as i64 * records
        };
        assert_eq!((sent(1), sent(10), sent(1000)), (10_999, 10_990, 10_000));
        // One large batch is allowed at once, and the next one when its records have had their time.
        assert_eq!((sent(10_000), sent(4_000)), (10_000, 12_000));
        let full = next_records(0, 5_000_000, 10, 50_000).expect("allowed");
        assert_eq!(next(full, 5_000_000, 10), Err(5_000_000 + 4_100_000));
    }

    #[test]
    fn a_pace_holds_over_a_pause() {
        // Batches of 20 rows at 20 rows a second. The third one takes ten seconds, and waits end early.
        let mut pace = BatchPace::new(Some(20.0));
        let (mut now, mut began) = (Duration::ZERO, Vec::new());
        for batch in 0..10 {
            while !pace.pause(now).is_zero() {
                now += pace.pause(now).min(Duration::from_millis(300));
            }
            began.push(now);
            pace.add(now, 20);
            now += Duration::from_millis(if batch == 2 { 10_000 } else { 50 });
        }
        assert!(began.windows(2).all(|pair| pair[1] - pair[0] >= Duration::from_secs(1)), "{began:?}");
        assert_eq!(began[3] - began[2], Duration::from_secs(10));
        // A batch of more rows than a second's takes longer, and without a pace there is no pause.
        pace.add(now, 100);
        assert!(pace.pause(now) >= Duration::from_secs(5));
        let mut free = BatchPace::new(None);
        free.add(now, 1_000_000);
        assert_eq!(free.pause(Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn a_slower_rate_is_never_refused() {
        assert_eq!(admitted(10, 100_000, 10_000_000), 100);
        assert_eq!(admitted(1, 1_000_000, 10_000_000), 10);
    }

    #[test]
    fn a_refusal_says_when_to_repeat() {
        let now = 5_000_000;
        let full = (0..10).fold(0, |due, _| next(due, now, 10).unwrap_or(due));
        let again = next(full, now, 10).expect_err("full");
        assert_eq!(again, now + 100_000);
        assert!(next(full, again, 10).is_ok() && next(full, again - 1, 10).is_err());
    }

    #[test]
    fn a_clock_that_goes_back_blocks_nobody() {
        assert!(next(i64::MAX, 5_000_000 + 1_000_001, 10).is_err());
        let again = next(i64::MAX, 5_000_000, 10).expect_err("full");
        assert!(again <= 5_000_000 + 100_000 + MOST_EVENTS * 100_000);
        assert!(next(5_000_000, 1_000, 10).is_err());
        assert!(next(5_000_000, i64::MAX - 5, 10).is_ok());
    }
}
