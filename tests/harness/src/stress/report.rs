//! The summary at the end.

use super::Run;
use crate::history::judge::Verdict;
use claims_model::overtaking::Overtakings;
use std::time::Duration;

/// The number of problems of the history that are printed. The others are counted.
const SHOWN: usize = 20;

pub struct Report<'a> {
    pub run: &'a Run,
    pub verdict: &'a Verdict,
    /// If waiters have an order.
    pub order: Option<&'a Overtakings>,
    /// The limit for the duration of a call.
    pub bound: Duration,
}

impl Report<'_> {
    /// Prints the report. Returns true if there are no problems.
    pub fn print(&self) -> bool {
        let late = self.latencies();
        self.happened();
        self.judge(&late)
    }

    /// Prints a line for each kind of call. Returns those that took too long.
    fn latencies(&self) -> Vec<String> {
        println!("\n  {:<18} {:>8} {:>9} {:>9} {:>9}", "call", "times", "p50 ms", "p99 ms", "max ms");
        let mut late = Vec::new();
        for (kind, latencies) in &self.run.notes.latencies {
            let mut sorted = latencies.clone();
            sorted.sort_unstable();
            let at = |part: f64| sorted[((sorted.len() - 1) as f64 * part) as usize] as f64 / 1e6;
            println!("  {kind:<18} {:>8} {:>9.2} {:>9.2} {:>9.2}", sorted.len(), at(0.5), at(0.99), at(1.0));
            if at(1.0) > self.bound.as_secs_f64() * 1e3 {
                late.push(format!("a {kind} took {:.0} ms; the bound is {} ms", at(1.0), self.bound.as_millis()));
            }
        }
        late
    }

    fn happened(&self) {
        let Run { notes, sabotage, wreckage, follower, sightings } = self.run;
        let verdict = self.verdict;
        let mut codes = std::collections::BTreeMap::<String, u64>::new();
        notes.refusals.iter().for_each(|((_, code), n)| *codes.entry(code.clone()).or_default() += n);
        println!();
        println!("  conflicts     {}", counted(notes.conflicts.clone().into_iter().collect()));
        println!("  refusals      {}", counted(codes.into_iter().collect()));
        println!("  transactions  {} with several steps, {} of them committed", notes.scripts, notes.scripts_committed);
        println!("  sabotage      {} cancels, {} backends killed", sabotage.cancels, sabotage.kills);
        if let Some(wreckage) = wreckage {
            let (crashes, helpers) = (wreckage.crashes, wreckage.helpers);
            println!("  wreckage      {crashes} crashes of nodes, {helpers} backends that worked for other nodes");
        }
        println!(
            "  lock waits    {} backends seen waiting in {} looks, the longest for {:.1} ms",
            sabotage.waiting, sabotage.readings, sabotage.longest_wait_ms
        );
        println!(
            "  history       {} leases ({} committed, {} rolled back) on {} buckets, {} changes of owner, {} sightings",
            verdict.leases,
            verdict.committed,
            verdict.rolled_back,
            verdict.buckets,
            verdict.changes_of_owner,
            verdict.sightings
        );
        if let (Some(order), Some(sightings)) = (self.order, sightings) {
            println!(
                "  waiters       {} at once at most in {} looks, {} names taken, {} turns compared, {} overtaken",
                sightings.most,
                sightings.looks,
                notes.taken.len(),
                order.compared,
                order.found.len()
            );
        }
        if let Some(follower) = follower {
            println!(
                "  change feed   {} changes in {} pages, {} more pages forgotten and read again",
                follower.changes.len(),
                follower.pages,
                follower.forgotten
            );
        }
    }

    /// Prints `ok`, or all problems.
    fn judge(&self, late: &[String]) -> bool {
        let Run { notes, wreckage, follower, .. } = self.run;
        let nothing = [
            (self.verdict.changes_of_owner == 0, "no bucket ever changed its owner"),
            (follower.as_ref().is_some_and(|f| f.changes.is_empty()), "the change feed told nothing"),
            (self.order.is_some_and(|order| order.compared == 0), "no two waiters could be compared"),
            (wreckage.as_ref().is_some_and(|w| w.crashes == 0), "no node crashed"),
        ];
        let idle = nothing.iter().filter(|(so, _)| *so).map(|(_, what)| format!("{what}: this proves nothing"));
        let told = notes.problems.iter().chain(late).chain(&self.verdict.problems).cloned();
        let problems: Vec<String> = told.chain(idle).collect();
        println!();
        if problems.is_empty() {
            println!("ok");
            return true;
        }
        println!("{} problems:", problems.len() + notes.more_problems);
        problems.iter().take(2 * SHOWN).for_each(|p| println!("  - {p}"));
        false
    }
}

fn counted(map: Vec<(String, u64)>) -> String {
    let parts: Vec<String> = map.into_iter().map(|(key, n)| format!("{key} {n}")).collect();
    if parts.is_empty() { "none".to_string() } else { parts.join(", ") }
}
