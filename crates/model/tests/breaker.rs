//! The breaker of a service, second by second.

use claims_model::breaker::{Admission, Breaker, BreakerState, Limits};

const SECOND: i64 = 1_000_000;
const LIMITS: Limits = Limits { failures: 3, pause: SECOND };
const CALL: Admission = Admission::Call { trial: false };
const TRIAL: Admission = Admission::Call { trial: true };

fn opened(now: i64) -> Breaker {
    let mut breaker = Breaker::new(0);
    for _ in 0..LIMITS.failures {
        assert_eq!(breaker.admit(now, LIMITS), CALL);
        breaker.failed(false, now, LIMITS, "down");
    }
    breaker
}

#[test]
fn opens_after_failures_in_a_row() {
    let mut breaker = opened(10);
    assert_eq!((breaker.state(), breaker.failures(), breaker.since()), (BreakerState::Open, 3, 10));
    assert_eq!(breaker.last_error(), Some("down"));
    assert_eq!(breaker.admit(11, LIMITS), Admission::Refuse { next_try: SECOND + 10 });
    assert_eq!(breaker.next_try(), Some(SECOND + 10));
}

#[test]
fn a_success_in_between_begins_anew() {
    let mut breaker = Breaker::new(0);
    for now in 0..20 {
        breaker.failed(false, now, LIMITS, "down");
        breaker.failed(false, now, LIMITS, "down");
        breaker.succeeded(now);
        assert_eq!((breaker.state(), breaker.failures(), breaker.last_error()), (BreakerState::Closed, 0, None));
    }
}

#[test]
fn one_call_tries() {
    let mut breaker = opened(0);
    assert_eq!(breaker.admit(SECOND, LIMITS), TRIAL);
    assert_eq!(breaker.state(), BreakerState::Trying);
    assert!(matches!(breaker.admit(SECOND + 1, LIMITS), Admission::Refuse { .. }));
    breaker.succeeded(2 * SECOND);
    assert_eq!((breaker.state(), breaker.next_try()), (BreakerState::Closed, None));
    assert_eq!(breaker.admit(2 * SECOND, LIMITS), CALL);
}

#[test]
fn the_pause_doubles_up_to_half_a_minute() {
    let mut breaker = opened(0);
    let mut now = SECOND;
    let mut pauses = Vec::new();
    for _ in 0..7 {
        assert_eq!(breaker.admit(now, LIMITS), TRIAL);
        breaker.failed(true, now, LIMITS, "still down");
        let next = breaker.next_try().unwrap_or_default();
        pauses.push((next - now) / SECOND);
        assert!(matches!(breaker.admit(next - 1, LIMITS), Admission::Refuse { .. }));
        now = next;
    }
    assert_eq!(pauses, [2, 4, 8, 16, 30, 30, 30]);
    // And begins anew after a success.
    breaker.succeeded(now);
    (0..3).for_each(|_| breaker.failed(false, now, LIMITS, "down"));
    assert_eq!(breaker.next_try(), Some(now + SECOND));
}

#[test]
fn calls_under_way_when_it_opens_do_not_prolong_the_pause() {
    let mut breaker = opened(0);
    breaker.failed(false, SECOND / 2, LIMITS, "late");
    assert_eq!(breaker.next_try(), Some(SECOND));
    assert_eq!(breaker.failures(), 4);
}

#[test]
fn never_with_0() {
    let never = Limits { failures: 0, pause: SECOND };
    let mut breaker = Breaker::new(0);
    for now in 0..100 {
        assert_eq!(breaker.admit(now, never), CALL);
        breaker.failed(false, now, never, "down");
    }
    assert_eq!(breaker.state(), BreakerState::Closed);
    // Switched off while it is open.
    assert_eq!(opened(0).admit(1, never), CALL);
}

#[test]
fn an_abandoned_trial_is_followed_by_another() {
    let mut breaker = opened(0);
    assert_eq!(breaker.admit(SECOND, LIMITS), TRIAL);
    breaker.abandoned(SECOND + 5);
    assert_eq!(breaker.admit(SECOND + 6, LIMITS), TRIAL);
    // One whose process is gone.
    assert!(matches!(breaker.admit(30 * SECOND, LIMITS), Admission::Refuse { .. }));
    assert_eq!(breaker.admit(31 * SECOND + 6, LIMITS), TRIAL);
}

#[test]
fn a_clock_that_is_set_back() {
    let mut breaker = opened(3600 * SECOND);
    assert_eq!(breaker.admit(0, LIMITS), TRIAL);
}

#[test]
fn errors_are_cut_between_characters() {
    let mut breaker = Breaker::new(0);
    breaker.failed(false, 0, LIMITS, &"ä".repeat(1000));
    assert_eq!(breaker.last_error(), Some("ä".repeat(120).as_str()));
    breaker.failed(false, 0, LIMITS, &format!("x{}", "ä".repeat(1000)));
    assert_eq!(breaker.last_error().map(str::len), Some(239));
}
