//! The counts of a campaign, and its problems.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

#[derive(Debug, Default)]
pub struct Tally {
    counts: Arc<Mutex<BTreeMap<String, i64>>>,
    /// The broken promises.
    pub problems: Vec<String>,
}

impl Tally {
    /// Returns a tally that counts together with this one, and has problems of its own.
    pub fn sharing_counts(&self) -> Self {
        Self { counts: self.counts.clone(), problems: Vec::new() }
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<String, i64>> {
        self.counts.lock().unwrap()
    }

    pub fn count(&self, what: impl Into<String>) {
        self.add(what, 1);
    }

    pub fn add(&self, what: impl Into<String>, how_many: i64) {
        *self.counts().entry(what.into()).or_default() += how_many;
    }

    pub fn set(&self, what: &str, how_many: i64) {
        self.counts().insert(what.to_owned(), how_many);
    }

    pub fn problem(&mut self, problem: String) {
        self.problems.push(problem);
    }

    fn of(&self, what: &str) -> i64 {
        self.counts().get(what).copied().unwrap_or(0)
    }

    /// Returns the events that were too rare for the campaign to prove anything.
    pub fn too_rare(&self, has_workers: bool) -> Vec<String> {
        let by_hand = [("recovery: committed", 5), ("recovery: rolled back", 5), ("recovery: service unreachable", 1)];
        let by_workers = [("worker: passes", 10), ("worker: rolled back", 5), ("worker: service unreachable", 1)];
        let by_whom = if has_workers { by_workers } else { by_hand };
        let by_writers = [
            ("explicit: committed", 40),
            ("explicit: conflicts", 10),
            ("explicit: died", 5),
            ("automatic: committed", 20),
            ("automatic: refused 23505", 5),
            ("automatic: refused 55P03", 1),
            ("automatic: refused 08001", 1),
            ("automatic: died", 5),
            ("pending: committed", 20),
            ("pending: finished", 10),
        ];
        let demands = by_writers.into_iter().chain(by_whom);
        let mut rare: Vec<String> = demands
            .filter(|(what, least)| self.of(what) < *least)
            .map(|(what, least)| format!("{what}: {} times only, at least {least} wanted", self.of(what)))
            .collect();
        // The service stops for four seconds at least. Few transactions reach it in that time, so one of any kind is
        // enough.
        if self.of("automatic: refused 57014") + self.of("pending: refused 57014") == 0 {
            rare.push("no transaction has met a silent service".to_owned());
        }
        rare
    }

    /// Prints everything, the problems first: the output of a test that fails may be cut off. Returns whether there are none.
    pub fn print(&self) -> bool {
        self.problems.iter().take(20).for_each(|problem| println!("PROBLEM: {problem}"));
        self.counts().iter().for_each(|(what, n)| println!("{n:>8}  {what}"));
        println!("{} problems", self.problems.len());
        self.problems.is_empty()
    }
}
