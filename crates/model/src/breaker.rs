//! The breaker of a service: after consecutive failures calls fail at once for a while, then one of them is let through.
//!
//! A value of fixed size without pointers, so that it can be in shared memory. Times are microseconds of
//! any one clock.

/// Bytes of an error that are kept.
const ERROR_BYTES: usize = 240;

/// The pause doubles up to this, in microseconds.
const LONGEST_PAUSE: i64 = 30_000_000;

/// If the call that was let through has not reported its result for this long, its process may be gone: another one is let
/// through.
const TRIAL: i64 = 30_000_000;

/// When the breaker opens, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Consecutive failures that open it; 0: never.
    pub failures: u32,
    /// The first pause, in microseconds.
    pub pause: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// Calls are made.
    Closed,
    /// Calls fail at once.
    Open,
    /// One call is let through, the others fail at once.
    Trying,
}

impl BreakerState {
    pub fn name(self) -> &'static str {
        match self {
            BreakerState::Closed => "closed",
            BreakerState::Open => "open",
            BreakerState::Trying => "trying",
        }
    }
}

/// What a call may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Go on. `trial`: it is the one that is let through.
    Call { trial: bool },
    /// Fail at once, until the next call is let through.
    Refuse { next_try: i64 },
}

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Breaker {
    state: u32,
    failures: u32,
    pause: i64,
    since: i64,
    next_try: i64,
    error_bytes: u32,
    error: [u8; ERROR_BYTES],
}

impl Breaker {
    /// Closed, without any calls yet.
    pub const fn new(now: i64) -> Self {
        Breaker { state: 0, failures: 0, pause: 0, since: now, next_try: 0, error_bytes: 0, error: [0; ERROR_BYTES] }
    }

    pub fn state(&self) -> BreakerState {
        match self.state {
            0 => BreakerState::Closed,
            1 => BreakerState::Open,
            _ => BreakerState::Trying,
        }
    }

    /// Closed, and the last call has succeeded: neither a call nor its success changes anything.
    pub fn is_untroubled(&self) -> bool {
        self.state() == BreakerState::Closed && self.failures == 0
    }

    /// Consecutive failures so far.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// When it changed to its state.
    pub fn since(&self) -> i64 {
        self.since
    }

    /// Unless it is closed.
    pub fn next_try(&self) -> Option<i64> {
        (self.state() != BreakerState::Closed).then_some(self.next_try)
    }

    /// The error of the last failure since the last success.
    pub fn last_error(&self) -> Option<&str> {
        let bytes = self.error.get(..self.error_bytes as usize)?;
        std::str::from_utf8(bytes).ok().filter(|text| !text.is_empty())
    }

    /// A call is to be made.
    pub fn admit(&mut self, now: i64, limits: Limits) -> Admission {
        if self.state() == BreakerState::Closed || limits.failures == 0 {
            return Admission::Call { trial: false };
        }
        // If the clock was set back, it is not open for longer than the longest pause.
        if now < self.next_try && self.next_try - now <= LONGEST_PAUSE {
            return Admission::Refuse { next_try: self.next_try };
        }
        self.turn(BreakerState::Trying, now);
        self.next_try = now + TRIAL;
        Admission::Call { trial: true }
    }

    /// The service has answered, possibly with an error.
    pub fn succeeded(&mut self, now: i64) {
        if self.state() != BreakerState::Closed || self.failures > 0 {
            *self = Breaker::new(now);
        }
    }

    /// The service could not be reached, or has not answered.
    pub fn failed(&mut self, trial: bool, now: i64, limits: Limits, error: &str) {
        self.failures = self.failures.saturating_add(1);
        self.keep(error);
        let opens = self.state() == BreakerState::Closed && limits.failures > 0 && self.failures >= limits.failures;
        let again = trial && self.state() == BreakerState::Trying;
        if opens || again {
            self.pause = if again { self.pause.saturating_mul(2) } else { limits.pause };
            self.pause = self.pause.clamp(1, LONGEST_PAUSE.max(limits.pause));
            self.turn(BreakerState::Open, now);
            self.next_try = now + self.pause;
        }
    }

    /// The call that was let through was canceled without a result: the next one is let through.
    pub fn abandoned(&mut self, now: i64) {
        if self.state() == BreakerState::Trying {
            self.turn(BreakerState::Open, now);
            self.next_try = now;
        }
    }

    fn turn(&mut self, state: BreakerState, now: i64) {
        self.state = match state {
            BreakerState::Closed => 0,
            BreakerState::Open => 1,
            BreakerState::Trying => 2,
        };
        self.since = now;
    }

    fn keep(&mut self, error: &str) {
        let end = (0..=error.len().min(ERROR_BYTES)).rev().find(|end| error.is_char_boundary(*end)).unwrap_or(0);
        self.error[..end].copy_from_slice(&error.as_bytes()[..end]);
        self.error_bytes = end as u32;
    }
}
