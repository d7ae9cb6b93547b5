//! The readable results of all cases.

use std::collections::BTreeMap;
use std::time::Duration;

use super::case::Outcome;
use super::laws::{Breach, Law};
use super::lie::Lie;
use super::ways::Way;

/// The cases of a way.
#[derive(Default)]
struct Row {
    cases: usize,
    broken: usize,
    late: Duration,
    memory: u64,
}

#[derive(Default)]
pub struct Report {
    /// By the position of the way in the source.
    ways: BTreeMap<usize, (String, Row)>,
    /// By lie, the broken laws, the ways, and the first description.
    breaches: BTreeMap<&'static str, BTreeMap<Law, (Vec<String>, String)>>,
    cases: usize,
    /// Cases that were repeated because the server was restarted, or because of a law about time.
    repeats: usize,
}

impl Report {
    pub fn add(&mut self, lie: &Lie, place: usize, way: &Way, outcome: &Outcome) {
        self.cases += 1;
        let (_, row) = self.ways.entry(place).or_insert_with(|| (way.to_string(), Row::default()));
        row.cases += 1;
        row.broken += usize::from(!outcome.breaches.is_empty());
        row.late = row.late.max(outcome.late);
        row.memory = row.memory.max(outcome.memory);
        for Breach { law, how } in &outcome.breaches {
            let broken = self.breaches.entry(lie.name).or_default();
            let (ways, _) = broken.entry(*law).or_insert_with(|| (Vec::new(), how.clone()));
            if !ways.contains(&way.to_string()) {
                ways.push(way.to_string());
            }
        }
    }

    pub fn repeated(&mut self) {
        self.repeats += 1;
    }

    /// Prints everything. Returns whether there are no breaches.
    pub fn print(&self) -> bool {
        for (lie, laws) in &self.breaches {
            let broken = |(law, (ways, how)): (&Law, &(Vec<String>, String))| {
                let more = if ways.len() > 1 { format!(" and {} more", ways.len() - 1) } else { String::new() };
                format!("\"{}\" at {}{more} ({how})", law.text(), ways[0])
            };
            println!("BROKEN: {lie}: {}", laws.iter().map(broken).collect::<Vec<_>>().join("; "));
        }
        println!("{:<30} {:>6} {:>7} {:>8} {:>9}", "call", "lies", "broken", "late ms", "memory MB");
        for (name, Row { cases, broken, late, memory }) in self.ways.values() {
            println!("{name:<30} {cases:>6} {broken:>7} {:>8} {:>9}", late.as_millis(), memory >> 20);
        }
        if self.repeats > 0 {
            println!("{} cases were tried again", self.repeats);
        }
        println!("{} lies at calls, {} lies broke a law", self.cases, self.breaches.len());
        self.breaches.is_empty()
    }
}
