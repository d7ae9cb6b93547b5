//! Times as text in UTC, independent of the settings of a session.

const DAY_US: i64 = 24 * 60 * 60 * 1_000_000;
/// Days from 0000-03-01, when the years of the calculation begin, to 2000-01-01.
const DAYS_BEFORE: i64 = 730_425;
/// Days of 400 years, after which the calendar repeats.
const CYCLE_DAYS: i64 = 146_097;

/// Formats a time in microseconds since 2000 as in ISO 8601. Times that the calendar of PostgreSQL does not have become `infinity`.
pub fn text(us: i64) -> String {
    if us == i64::MAX {
        return "infinity".to_owned();
    }
    let (year, month, day) = date(us.div_euclid(DAY_US));
    let of_day = us.rem_euclid(DAY_US);
    let (seconds, fraction) = (of_day / 1_000_000, of_day % 1_000_000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:06}+00:00")
}

/// Returns the date a number of days after 2000-01-01. Years begin in March here, so that the leap day is the last one.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + DAYS_BEFORE;
    let (cycle, of_cycle) = (days.div_euclid(CYCLE_DAYS), days.rem_euclid(CYCLE_DAYS));
    let year_of_cycle = (of_cycle - of_cycle / 1460 + of_cycle / 36_524 - of_cycle / 146_096) / 365;
    let of_year = of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let (month, carry) = if month_from_march < 10 { (month_from_march + 3, 0) } else { (month_from_march - 9, 1) };
    (cycle * 400 + year_of_cycle + carry, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn midnight(days: i64) -> String {
        text(days * DAY_US)
    }

    #[test]
    fn dates_are_those_of_the_gregorian_calendar() {
        let known = [
            (0, "2000-01-01"),
            (58, "2000-02-28"),
            (59, "2000-02-29"),
            (60, "2000-03-01"),
            (366, "2001-01-01"),
            (-1, "1999-12-31"),
            (9831, "2026-12-01"),
            (36_524, "2099-12-31"),
            (36_525 + 58, "2100-02-28"),
            (36_525 + 59, "2100-03-01"),
            (146_097, "2400-01-01"),
            (-10_957, "1970-01-01"),
        ];
        for (days, date) in known {
            assert_eq!(midnight(days), format!("{date}T00:00:00.000000+00:00"), "{days}");
        }
    }

    #[test]
    fn every_day_follows_its_day_before() {
        let mut last = date(-200_000);
        for days in -199_999..200_000 {
            let next = date(days);
            let follows = match (last, next) {
                ((year, month, day), (y, m, 1)) => {
                    day >= 28 && (y, m) == if month == 12 { (year + 1, 1) } else { (year, month + 1) }
                }
                ((year, month, day), (y, m, d)) => (y, m, d) == (year, month, day + 1),
            };
            assert!(follows, "{last:?} {next:?}");
            last = next;
        }
    }

    #[test]
    fn a_time_has_its_parts() {
        let noon = 12 * 3_600_000_000 + 34 * 60_000_000 + 56_000_007;
        assert_eq!(text(noon), "2000-01-01T12:34:56.000007+00:00");
        assert_eq!(text(-1), "1999-12-31T23:59:59.999999+00:00");
        assert_eq!(text(i64::MAX), "infinity");
    }
}
