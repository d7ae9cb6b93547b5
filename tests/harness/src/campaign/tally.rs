//! The counts of a campaign, and its problems.

use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct Tally {
    counts: BTreeMap<String, i64>,
    /// The broken promises.
    pub problems: Vec<String>,
}

impl Tally {
    pub fn count(&mut self, what: impl Into<String>) {
        self.add(what, 1);
    }

    pub fn add(&mut self, what: impl Into<String>, how_many: i64) {
        *self.counts.entry(what.into()).or_default() += how_many;
    }

    pub fn problem(&mut self, problem: String) {
        self.problems.push(problem);
    }

    pub fn merge(&mut self, other: Tally) {
        other.counts.into_iter().for_each(|(what, n)| self.add(what, n));
        self.problems.extend(other.problems);
    }

    fn of(&self, what: &str) -> i64 {
        self.counts.get(what).copied().unwrap_or(0)
    }

    /// Reports a problem if too little happened for the campaign to prove anything.
    pub fn demand_that_it_was_a_campaign(&mut self, has_workers: bool) {
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
            ("leases committed by cell 2", 20),
        ];
        for (what, least) in by_writers.into_iter().chain(by_whom) {
            if self.of(what) < least {
                self.problem(format!("{what}: {} times only, at least {least} wanted", self.of(what)));
            }
        }
        // The service is slow for two seconds at least. Few transactions reach it in that time, so one of any kind is
        // enough.
        if self.of("automatic: refused 57014") + self.of("pending: refused 57014") == 0 {
            self.problem("no transaction has met a silent service".to_owned());
        }
    }

    /// Prints everything. Returns whether there are no problems.
    pub fn print(&self) -> bool {
        self.counts.iter().for_each(|(what, n)| println!("{n:>8}  {what}"));
        self.problems.iter().take(20).for_each(|problem| println!("PROBLEM: {problem}"));
        println!("{} problems", self.problems.len());
        self.problems.is_empty()
    }
}
