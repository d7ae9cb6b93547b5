//! A rate limit over any period, in one number that processes can share. The number is the time at which the next event
//! would be due at an even pace. An event is allowed if that is at most a second ahead.

/// The largest burst, as the time in which it would come at an even pace, in microseconds.
const BURST_US: i64 = 1_000_000;

/// Returns the new value of `due` if another event at `now` is allowed, and otherwise the time from which it is.
pub fn next(due: i64, now: i64, per_second: i32) -> Result<i64, i64> {
    let pace = BURST_US / i64::from(per_second.max(1));
    // After the clock was set back, nobody waits for longer than the burst.
    let due = due.clamp(now, now.saturating_add(BURST_US));
    let after = due.saturating_add(pace.max(1));
    if after <= now.saturating_add(BURST_US) { Ok(after) } else { Err(after.saturating_sub(BURST_US)) }
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
        assert!(again <= 5_000_000 + 100_000);
        assert!(next(5_000_000, 1_000, 10).is_err());
        assert!(next(5_000_000, i64::MAX - 5, 10).is_ok());
    }
}
