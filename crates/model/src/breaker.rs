//! The circuit breaker of a service. After consecutive failures calls fail at once for a pause; then one call, the
//! trial, is let through.
//!
//! A failure means that the service could not be reached, or that it did not answer within the time that an
//! administrator has set as enough. A caller that stops waiting earlier, or is canceled, reports nothing. The callers
//! of this module ensure that.
//!
//! Many sessions share a breaker, and each of them may fail for a reason of its own. So one session alone cannot open
//! it for the others:
//!
//! - The breaker opens after `Limits::failures` consecutive failures. A success in any session resets the count.
//! - While all of these failures are of one session, the breaker is open for this session only, and all others continue
//!   to call. If one of them fails, too, the breaker opens for all. If one of them succeeds, it closes.
//! - A trusted caller opens it for all without another session. It is the background worker, whose calls no user can
//!   influence.
//! - A session whose trial failed or was abandoned waits for a second pause if the breaker is open for all. Other
//!   sessions get their trial before it.
//!
//! If only one session calls, the breaker stops it after the same number of failures, and it tries again after each
//! pause.
//!
//! A breaker has a fixed size and no pointers, so it can be in shared memory. Times are microseconds of any one clock.

use strum::IntoStaticStr;
use zerocopy::FromBytes;

/// The largest number of bytes of the stored error.
const ERROR_BYTES: usize = 240;

/// The limit up to which the pause doubles, in microseconds.
const MAX_PAUSE_US: i64 = 30_000_000;

/// Time after which the process of a trial without a result counts as gone, in microseconds. Then another trial is let
/// through.
const TRIAL_TIMEOUT_US: i64 = 30_000_000;

/// The settings that say when the breaker opens, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The number of consecutive failures that open it; 0 disables the breaker.
    pub failures: u32,
    /// The first pause, in microseconds.
    pub pause: i64,
}

/// A process that calls the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// Its number, which no other running process has; never 0.
    pub session: u32,
    /// Whether its failures open the breaker without a failure of another session.
    pub is_trusted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum BreakerState {
    /// Calls are made.
    Closed,
    /// Calls fail at once.
    Open,
    /// One call, the trial, is let through. The others fail at once.
    Trying,
}

impl BreakerState {
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The decision about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Make the call. `trial` says whether it is the one that is let through.
    Call { trial: bool },
    /// Fail at once. `next_try` is when the next call is let through.
    Refuse { next_try: i64 },
}

#[derive(Debug, Clone, Copy, FromBytes)]
#[repr(C)]
pub struct Breaker {
    state: u32,
    failures: u32,
    /// The only session with failures. 0 if there are no failures, failures of several sessions, or one of a trusted
    /// caller.
    only_session: u32,
    /// The session whose trial failed or was abandoned last; 0 if there is none.
    failed_trial_session: u32,
    pause: i64,
    since: i64,
    next_try: i64,
    error_bytes: u32,
    error: [u8; ERROR_BYTES],
}

impl Breaker {
    /// Returns a closed breaker without failures.
    pub const fn new(now: i64) -> Self {
        Breaker {
            state: 0,
            failures: 0,
            only_session: 0,
            failed_trial_session: 0,
            pause: 0,
            since: now,
            next_try: 0,
            error_bytes: 0,
            error: [0; ERROR_BYTES],
        }
    }

    /// Returns the state for a caller. A breaker that is open for one session is closed for all others.
    pub fn state_for(&self, caller: Caller) -> BreakerState {
        if self.concerns(caller) { self.state() } else { BreakerState::Closed }
    }

    fn concerns(&self, caller: Caller) -> bool {
        self.only_session == 0 || self.only_session == caller.session
    }

    fn state(&self) -> BreakerState {
        match self.state {
            0 => BreakerState::Closed,
            1 => BreakerState::Open,
            _ => BreakerState::Trying,
        }
    }

    /// Returns whether the breaker is closed and has no failures. Then neither a call nor its success changes it.
    pub fn has_no_failures(&self) -> bool {
        self.state() == BreakerState::Closed && self.failures == 0
    }

    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Returns when it changed to its state.
    pub fn since(&self) -> i64 {
        self.since
    }

    /// Returns when the next call of a caller is let through, or `None` if calls are not refused.
    pub fn next_try_for(&self, caller: Caller) -> Option<i64> {
        (self.state_for(caller) != BreakerState::Closed).then(|| self.next_try + self.extra_pause(caller))
    }

    /// Returns the second pause of a session whose trial failed or was abandoned, and 0 for the others.
    fn extra_pause(&self, caller: Caller) -> i64 {
        let trial_failed = self.failed_trial_session == caller.session && self.state() == BreakerState::Open;
        if trial_failed && self.only_session == 0 && !caller.is_trusted { self.pause } else { 0 }
    }

    /// Returns the last error since the last success.
    pub fn last_error(&self) -> Option<&str> {
        let bytes = self.error.get(..self.error_bytes as usize)?;
        std::str::from_utf8(bytes).ok().filter(|text| !text.is_empty())
    }

    /// Decides about a call.
    pub fn admit(&mut self, now: i64, limits: Limits, caller: Caller) -> Admission {
        if self.state_for(caller) == BreakerState::Closed || limits.failures == 0 {
            return Admission::Call { trial: false };
        }
        let extra_pause = self.extra_pause(caller);
        let next_try = self.next_try + extra_pause;
        // After the clock was set back, the breaker stays open for at most the longest pause.
        if now < next_try && next_try - now <= MAX_PAUSE_US + extra_pause {
            return Admission::Refuse { next_try };
        }
        self.set_state(BreakerState::Trying, now);
        self.next_try = now + TRIAL_TIMEOUT_US;
        Admission::Call { trial: true }
    }

    /// Records that the service answered, possibly with an error.
    pub fn succeeded(&mut self, now: i64) {
        if self.state() != BreakerState::Closed || self.failures > 0 {
            *self = Breaker::new(now);
        }
    }

    /// Records that the service could not be reached, or did not answer in time.
    pub fn failed(&mut self, trial: bool, now: i64, limits: Limits, caller: Caller, error: &str) {
        let was_of_one = self.only_session != 0;
        self.only_session = match (self.failures, self.only_session) {
            _ if caller.is_trusted => 0,
            (0, _) => caller.session,
            (_, only) if only == caller.session => only,
            _ => 0,
        };
        self.failures = self.failures.saturating_add(1);
        self.store_error(error);
        // Before this failure the breaker was open for one other session at most.
        let is_confirmed = was_of_one && self.only_session == 0;
        let is_first = self.state() == BreakerState::Closed || is_confirmed;
        if is_first && limits.failures > 0 && self.failures >= limits.failures {
            self.open(limits.pause, now, limits);
        } else if trial && self.state() == BreakerState::Trying {
            self.failed_trial_session = caller.session;
            self.open(self.pause.saturating_mul(2), now, limits);
        }
    }

    /// Records that the trial ended without a result, for example by a cancel. The next call is let through.
    pub fn abandoned(&mut self, now: i64, caller: Caller) {
        if self.state() == BreakerState::Trying {
            self.set_state(BreakerState::Open, now);
            self.next_try = now;
            self.failed_trial_session = caller.session;
        }
    }

    fn open(&mut self, pause: i64, now: i64, limits: Limits) {
        self.pause = pause.clamp(1, MAX_PAUSE_US.max(limits.pause));
        self.set_state(BreakerState::Open, now);
        self.next_try = now + self.pause;
    }

    fn set_state(&mut self, state: BreakerState, now: i64) {
        self.state = match state {
            BreakerState::Closed => 0,
            BreakerState::Open => 1,
            BreakerState::Trying => 2,
        };
        self.since = now;
    }

    fn store_error(&mut self, error: &str) {
        let end = (0..=error.len().min(ERROR_BYTES)).rev().find(|end| error.is_char_boundary(*end)).unwrap_or(0);
        self.error[..end].copy_from_slice(&error.as_bytes()[..end]);
        self.error_bytes = end as u32;
    }
}
