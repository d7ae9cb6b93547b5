//! Tests the breaker of a service, second by second.

use claims_model::breaker::{Admission, Breaker, BreakerState, Caller, Limits};

const SECOND: i64 = 1_000_000;
const LIMITS: Limits = Limits { failures: 3, pause: SECOND };
const CALL: Admission = Admission::Call { trial: false };
const TRIAL: Admission = Admission::Call { trial: true };

const fn session(session: u32) -> Caller {
    Caller { session, is_trusted: false }
}
const ONE: Caller = session(1);
const TWO: Caller = session(2);
const THREE: Caller = session(3);
const WORKER: Caller = Caller { session: 99, is_trusted: true };

/// Reports one failure of each of several sessions.
fn fail_by_turns(breaker: &mut Breaker, now: i64, failures: u32) {
    for number in 1..=failures {
        assert_eq!(breaker.admit(now, LIMITS, session(number)), CALL);
        breaker.failed(false, now, LIMITS, session(number), "down");
    }
}

/// Returns a breaker that is open for all.
fn opened(now: i64) -> Breaker {
    let mut breaker = Breaker::new(0);
    fail_by_turns(&mut breaker, now, LIMITS.failures);
    breaker
}

/// Returns a breaker that is open for one session.
fn opened_for_one(now: i64) -> Breaker {
    let mut breaker = Breaker::new(0);
    for _ in 0..LIMITS.failures {
        assert_eq!(breaker.admit(now, LIMITS, ONE), CALL);
        breaker.failed(false, now, LIMITS, ONE, "down");
    }
    breaker
}

fn is_refused(admission: Admission) -> bool {
    matches!(admission, Admission::Refuse { .. })
}

#[test]
fn opens_after_failures_in_a_row() {
    let mut breaker = opened(10);
    assert_eq!((breaker.state_for(ONE), breaker.failures(), breaker.since()), (BreakerState::Open, 3, 10));
    assert_eq!(breaker.last_error(), Some("down"));
    for caller in [ONE, TWO, session(77), WORKER] {
        assert_eq!(breaker.admit(11, LIMITS, caller), Admission::Refuse { next_try: SECOND + 10 });
        assert_eq!(breaker.next_try_for(caller), Some(SECOND + 10));
    }
}

#[test]
fn failures_of_one_session_open_it_for_that_session_only() {
    let mut breaker = opened_for_one(10);
    assert_eq!((breaker.state_for(ONE), breaker.failures()), (BreakerState::Open, 3));
    assert_eq!(breaker.admit(11, LIMITS, ONE), Admission::Refuse { next_try: SECOND + 10 });
    for caller in [TWO, THREE, WORKER] {
        assert_eq!((breaker.state_for(caller), breaker.next_try_for(caller)), (BreakerState::Closed, None));
        assert_eq!(breaker.admit(11, LIMITS, caller), CALL);
    }
    assert!(!breaker.has_no_failures());
}

#[test]
fn a_session_that_fails_alone_tries_again_after_each_pause() {
    let mut breaker = opened_for_one(0);
    let mut now = SECOND;
    for pause in [2, 4, 8] {
        assert_eq!(breaker.admit(now, LIMITS, ONE), TRIAL);
        assert_eq!((breaker.state_for(ONE), breaker.state_for(TWO)), (BreakerState::Trying, BreakerState::Closed));
        assert_eq!(breaker.admit(now, LIMITS, TWO), CALL);
        breaker.failed(true, now, LIMITS, ONE, "still down");
        now += pause * SECOND;
        assert_eq!(breaker.next_try_for(ONE), Some(now));
        assert!(is_refused(breaker.admit(now - 1, LIMITS, ONE)));
    }
}

#[test]
fn one_session_never_opens_it_for_others() {
    let mut breaker = Breaker::new(0);
    for now in 0..10_000 {
        let now = now * SECOND / 100;
        if let Admission::Call { trial } = breaker.admit(now, LIMITS, ONE) {
            breaker.failed(trial, now, LIMITS, ONE, "for a reason of its own");
        }
        assert_eq!(breaker.admit(now, LIMITS, TWO), CALL);
    }
}

#[test]
fn a_second_session_that_fails_opens_it_for_all() {
    let mut breaker = opened_for_one(0);
    assert_eq!(breaker.admit(SECOND, LIMITS, ONE), TRIAL);
    breaker.failed(true, SECOND, LIMITS, ONE, "down");
    let now = SECOND + 5;
    assert_eq!(breaker.admit(now, LIMITS, TWO), CALL);
    breaker.failed(false, now, LIMITS, TWO, "down");
    for caller in [TWO, THREE, WORKER] {
        assert_eq!(breaker.admit(now, LIMITS, caller), Admission::Refuse { next_try: now + SECOND });
    }
    // The first pause begins again, however long the pause of the one session was.
    assert_eq!(breaker.admit(now + SECOND, LIMITS, THREE), TRIAL);
}

#[test]
fn a_success_of_another_session_closes_it_for_the_one() {
    let mut breaker = opened_for_one(0);
    assert_eq!(breaker.admit(1, LIMITS, TWO), CALL);
    breaker.succeeded(1);
    assert!(breaker.has_no_failures());
    assert_eq!(breaker.admit(2, LIMITS, ONE), CALL);
    // The failures before that success no longer count.
    breaker.failed(false, 2, LIMITS, ONE, "down");
    breaker.failed(false, 2, LIMITS, TWO, "down");
    assert_eq!(breaker.state_for(ONE), BreakerState::Closed);
}

#[test]
fn a_trusted_caller_opens_it_alone() {
    let mut breaker = Breaker::new(0);
    for _ in 0..LIMITS.failures {
        assert_eq!(breaker.admit(0, LIMITS, WORKER), CALL);
        breaker.failed(false, 0, LIMITS, WORKER, "down");
    }
    assert!(is_refused(breaker.admit(1, LIMITS, ONE)) && is_refused(breaker.admit(1, LIMITS, WORKER)));
    // Its failure also confirms the failures of one session.
    let mut breaker = opened_for_one(0);
    breaker.failed(false, 1, LIMITS, WORKER, "down");
    assert!(is_refused(breaker.admit(2, LIMITS, TWO)));
    // An earlier failure of its own confirms the failures of one session, too.
    let mut breaker = Breaker::new(0);
    breaker.failed(false, 0, LIMITS, WORKER, "down");
    (1..LIMITS.failures).for_each(|_| breaker.failed(false, 0, LIMITS, ONE, "down"));
    assert!(is_refused(breaker.admit(1, LIMITS, TWO)));
}

#[test]
fn a_success_resets_the_count() {
    let mut breaker = Breaker::new(0);
    for now in 0..20 {
        fail_by_turns(&mut breaker, now, 2);
        breaker.succeeded(now);
        let seen = (breaker.state_for(ONE), breaker.failures(), breaker.last_error());
        assert_eq!(seen, (BreakerState::Closed, 0, None));
    }
}

#[test]
fn one_call_tries() {
    let mut breaker = opened(0);
    assert_eq!(breaker.admit(SECOND, LIMITS, ONE), TRIAL);
    assert_eq!(breaker.state_for(TWO), BreakerState::Trying);
    for caller in [ONE, TWO] {
        assert!(is_refused(breaker.admit(SECOND + 1, LIMITS, caller)));
    }
    breaker.succeeded(2 * SECOND);
    assert_eq!((breaker.state_for(ONE), breaker.next_try_for(ONE)), (BreakerState::Closed, None));
    assert_eq!(breaker.admit(2 * SECOND, LIMITS, ONE), CALL);
}

#[test]
fn the_pause_doubles_up_to_half_a_minute() {
    let mut breaker = opened(0);
    let mut now = SECOND;
    let mut pauses = Vec::new();
    for trier in 11..18 {
        let trier = session(trier);
        assert_eq!(breaker.admit(now, LIMITS, trier), TRIAL);
        breaker.failed(true, now, LIMITS, trier, "still down");
        let next = breaker.next_try_for(ONE).unwrap_or_default();
        pauses.push((next - now) / SECOND);
        assert!(is_refused(breaker.admit(next - 1, LIMITS, ONE)));
        now = next;
    }
    assert_eq!(pauses, [2, 4, 8, 16, 30, 30, 30]);
    // After a success it begins with the first pause again.
    breaker.succeeded(now);
    fail_by_turns(&mut breaker, now, 3);
    assert_eq!(breaker.next_try_for(ONE), Some(now + SECOND));
}

#[test]
fn a_session_whose_trial_failed_lets_others_try_first() {
    // A trial that failed: the next pause is two seconds, and two more for the session that failed.
    let mut breaker = opened(0);
    assert_eq!(breaker.admit(SECOND, LIMITS, ONE), TRIAL);
    breaker.failed(true, SECOND, LIMITS, ONE, "down");
    assert_eq!(breaker.admit(3 * SECOND, LIMITS, ONE), Admission::Refuse { next_try: 5 * SECOND });
    assert_eq!(breaker.next_try_for(ONE), Some(5 * SECOND));
    let mut other = breaker;
    assert_eq!(other.admit(3 * SECOND, LIMITS, TWO), TRIAL);
    // If no other session calls, it tries again.
    assert_eq!(breaker.admit(5 * SECOND, LIMITS, ONE), TRIAL);
    // The worker does not wait: no user can make its trials fail.
    let mut breaker = opened(0);
    assert_eq!(breaker.admit(SECOND, LIMITS, WORKER), TRIAL);
    breaker.failed(true, SECOND, LIMITS, WORKER, "down");
    assert_eq!(breaker.admit(3 * SECOND, LIMITS, WORKER), TRIAL);
}

#[test]
fn calls_under_way_when_it_opens_do_not_prolong_the_pause() {
    let mut breaker = opened(0);
    breaker.failed(false, SECOND / 2, LIMITS, TWO, "late");
    assert_eq!(breaker.next_try_for(ONE), Some(SECOND));
    assert_eq!(breaker.failures(), 4);
}

#[test]
fn never_with_0() {
    let never = Limits { failures: 0, pause: SECOND };
    let mut breaker = Breaker::new(0);
    for now in 0..100 {
        let caller = session(1 + now as u32 % 3);
        assert_eq!(breaker.admit(now, never, caller), CALL);
        breaker.failed(false, now, never, caller, "down");
    }
    assert_eq!(breaker.state_for(ONE), BreakerState::Closed);
    // The breaker is disabled while it is open.
    assert_eq!(opened(0).admit(1, never, ONE), CALL);
}

#[test]
fn an_abandoned_trial_is_followed_by_that_of_another_session() {
    let mut breaker = opened(0);
    assert_eq!(breaker.admit(SECOND, LIMITS, ONE), TRIAL);
    breaker.abandoned(SECOND + 5, ONE);
    assert_eq!(breaker.admit(SECOND + 6, LIMITS, ONE), Admission::Refuse { next_try: 2 * SECOND + 5 });
    assert_eq!(breaker.admit(SECOND + 6, LIMITS, TWO), TRIAL);
    // The process of the trial is gone.
    assert!(is_refused(breaker.admit(30 * SECOND, LIMITS, THREE)));
    assert_eq!(breaker.admit(31 * SECOND + 6, LIMITS, THREE), TRIAL);
    // If only one session calls, it tries again at once.
    let mut breaker = opened_for_one(0);
    assert_eq!(breaker.admit(SECOND, LIMITS, ONE), TRIAL);
    breaker.abandoned(SECOND + 5, ONE);
    assert_eq!(breaker.admit(SECOND + 5, LIMITS, ONE), TRIAL);
}

#[test]
fn a_clock_that_is_set_back() {
    let mut breaker = opened(3600 * SECOND);
    assert_eq!(breaker.admit(0, LIMITS, ONE), TRIAL);
}

#[test]
fn errors_are_cut_between_characters() {
    let mut breaker = Breaker::new(0);
    breaker.failed(false, 0, LIMITS, ONE, &"ä".repeat(1000));
    assert_eq!(breaker.last_error(), Some("ä".repeat(120).as_str()));
    breaker.failed(false, 0, LIMITS, ONE, &format!("x{}", "ä".repeat(1000)));
    assert_eq!(breaker.last_error().map(str::len), Some(239));
}
