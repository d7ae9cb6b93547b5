//! The counts of each connection in the race.

use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub won: u64,
    pub lost: u64,
    pub batches: u64,
    /// The number of conflicts by reason.
    pub conflicts: BTreeMap<String, u64>,
    pub slowest: Duration,
}

impl Tally {
    pub fn add(mut self, other: &Self) -> Self {
        self.won += other.won;
        self.lost += other.lost;
        self.batches += other.batches;
        self.slowest = self.slowest.max(other.slowest);
        for (reason, n) in &other.conflicts {
            *self.conflicts.entry(reason.clone()).or_default() += n;
        }
        self
    }

    pub fn count(&mut self, reason: &str) {
        *self.conflicts.entry(reason.to_string()).or_default() += 1;
    }

    pub fn of(&self, reason: &str) -> u64 {
        self.conflicts.get(reason).copied().unwrap_or(0)
    }
}
