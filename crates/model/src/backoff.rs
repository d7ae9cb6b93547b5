//! Pauses between attempts that double up to a limit.

use std::time::Duration;

/// The pauses between attempts at one thing.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Backoff { first, longest, next: first }
    }

    /// Returns the pause before the next attempt, and doubles the one behind that.
    pub fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        pause
    }

    /// Returns whether no pause was asked for.
    pub fn is_unused(&self) -> bool {
        self.next == self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(5));
        assert!(backoff.is_unused());
        assert_eq!([1, 2, 4, 5, 5].map(Duration::from_secs), std::array::from_fn(|_| backoff.pause()));
        assert!(!backoff.is_unused());
    }
}
