//! The summary at the end.

use super::BOUND;
use super::follower::Follower;
use super::notes::Notes;
use super::saboteur::Sabotage;
use crate::history::judge::Verdict;

/// Problems of the history to show; the rest is counted.
const SHOWN: usize = 20;

/// Prints what happened; `true` where nothing was wrong.
pub fn print(notes: &Notes, sabotage: &Sabotage, verdict: &Verdict, follower: &Follower) -> bool {
    println!("\n  {:<18} {:>8} {:>9} {:>9} {:>9}", "call", "times", "p50 ms", "p99 ms", "max ms");
    let mut late = Vec::new();
    for (kind, latencies) in &notes.latencies {
        let mut sorted = latencies.clone();
        sorted.sort_unstable();
        let at = |part: f64| sorted[((sorted.len() - 1) as f64 * part) as usize] as f64 / 1e6;
        println!("  {kind:<18} {:>8} {:>9.2} {:>9.2} {:>9.2}", sorted.len(), at(0.5), at(0.99), at(1.0));
        if at(1.0) > BOUND.as_secs_f64() * 1e3 {
            late.push(format!("a {kind} took {:.0} ms; the bound is {} ms", at(1.0), BOUND.as_millis()));
        }
    }
    let counted = |map: Vec<(String, u64)>| {
        let parts: Vec<String> = map.into_iter().map(|(key, n)| format!("{key} {n}")).collect();
        if parts.is_empty() { "none".to_string() } else { parts.join(", ") }
    };
    let mut codes = std::collections::BTreeMap::<String, u64>::new();
    notes.refusals.iter().for_each(|((_, code), n)| *codes.entry(code.clone()).or_default() += n);
    println!();
    println!("  conflicts     {}", counted(notes.conflicts.clone().into_iter().collect()));
    println!("  refusals      {}", counted(codes.into_iter().collect()));
    println!("  transactions  {} with several steps, {} of them committed", notes.scripts, notes.scripts_committed);
    println!("  sabotage      {} cancels, {} backends killed", sabotage.cancels, sabotage.kills);
    println!(
        "  lock waits    {} backends seen waiting in {} looks, the longest for {:.1} ms",
        sabotage.waiting, sabotage.looks, sabotage.longest_wait_ms
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
    println!(
        "  change feed   {} changes in {} pages, {} more pages forgotten and read again",
        follower.told.len(),
        follower.pages,
        follower.forgotten
    );
    verdict_of(notes, &late, verdict, follower)
}

/// `ok`, or everything that is wrong.
fn verdict_of(notes: &Notes, late: &[String], verdict: &Verdict, follower: &Follower) -> bool {
    let idle = (verdict.changes_of_owner == 0).then(|| "no bucket ever changed its owner: this proves nothing".into());
    let silent = follower.told.is_empty().then(|| "the change feed told nothing: this proves nothing".into());
    let all = notes.problems.iter().chain(late).chain(&verdict.problems);
    let problems: Vec<&String> = all.chain(idle.as_ref()).chain(silent.as_ref()).collect();
    println!();
    if problems.is_empty() {
        println!("ok");
        return true;
    }
    println!("{} problems:", problems.len() + notes.more_problems);
    problems.iter().take(2 * SHOWN).for_each(|p| println!("  - {p}"));
    false
}
