//! What happened, and what should never have.

use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct Tally {
    counts: BTreeMap<&'static str, i64>,
    /// Broken promises.
    pub problems: Vec<String>,
}

impl Tally {
    pub fn count(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    pub fn add(&mut self, what: &'static str, how_many: i64) {
        *self.counts.entry(what).or_default() += how_many;
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

    /// A campaign in which nothing happened proves nothing.
    pub fn demand_that_it_was_a_campaign(&mut self) {
        for (what, least) in [
            ("saved", 100),
            ("conflicts", 10),
            ("connections lost", 5),
            ("recovery: committed", 5),
            ("recovery: rolled back", 5),
            ("recovery: service unreachable", 1),
        ] {
            if self.of(what) < least {
                self.problem(format!("{what}: {} times only, at least {least} wanted", self.of(what)));
            }
        }
    }

    /// Prints everything; whether all is well.
    pub fn print(&self) -> bool {
        self.counts.iter().for_each(|(what, n)| println!("{n:>8}  {what}"));
        self.problems.iter().take(20).for_each(|problem| println!("PROBLEM: {problem}"));
        println!("{} problems", self.problems.len());
        self.problems.is_empty()
    }
}
