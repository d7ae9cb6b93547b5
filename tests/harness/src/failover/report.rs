//! The output of the campaign.

use std::collections::BTreeMap;

use super::board::Notes;
use super::fault::Kind;
use super::options::{Mode, Options};
use super::round::Round;
use super::verdict::Verdict;

/// The number of problems that are printed.
const SHOWN: usize = 20;

pub fn opening(options: &Options) {
    let mode = match options.mode {
        Mode::Synchronous => "synchronous replication, claims.require_synchronous = on",
        Mode::Asynchronous => "asynchronous replication, claims.require_synchronous = off",
    };
    println!(
        "failover: {} rounds, {mode}, ttl {} s, etcd's API v{}, seed {}",
        options.rounds, options.ttl, options.etcd_api, options.seed
    );
    if !options.has_disks {
        println!("no disk is made full: that needs root, and a tmpfs for each node's log");
    }
}

pub fn round(number: usize, of: usize, round: &Round) {
    println!(
        "round {number:>3}/{of}  {:<13} {} -> {}{}  {:>6.2} s without service, {:>6} acknowledged, whole after {:>5.1} s{}",
        round.kind.name(),
        round.from,
        round.to,
        if round.lagged { ", standbys behind" } else { "                 " },
        round.silence,
        round.acknowledged,
        round.repaired.as_secs_f64(),
        if round.helped { ", nobody could take over" } else { "" }
    );
}

pub fn refusals(notes: &Notes) {
    let list: Vec<String> = notes.refusals.iter().map(|(code, n)| format!("{code} {n}")).collect();
    println!("{} conflicts; calls not answered or refused: {}", notes.conflicts, list.join(", "));
}

/// Prints the time without service, by kind and overall.
pub fn silences(rounds: &[Round]) {
    let mut by_kind: BTreeMap<Kind, Vec<f64>> = BTreeMap::new();
    rounds.iter().for_each(|r| by_kind.entry(r.kind).or_default().push(r.silence));
    println!("\nseconds without service     rounds  median   worst");
    for (kind, silences) in &mut by_kind {
        line(kind.name(), silences);
    }
    line("all", &mut rounds.iter().map(|r| r.silence).collect::<Vec<_>>());
}

fn line(name: &str, silences: &mut [f64]) {
    silences.sort_by(f64::total_cmp);
    let (half, worst) = (silences.len() / 2, silences.last().copied().unwrap_or_default());
    let median = match silences.len() {
        0 => 0.0,
        n if n % 2 == 0 => f64::midpoint(silences[half - 1], silences[half]),
        _ => silences[half],
    };
    println!("  {name:<24} {:>7} {median:>7.2} {worst:>7.2}", silences.len());
}

pub fn verdict(options: &Options, rounds: usize, verdict: &Verdict) {
    println!(
        "\n{} leases on {} names, {} of them from one cell to another; {} of {} look-ups showed what was not so any more",
        verdict.leases, verdict.names, verdict.changes_of_owner, verdict.outdated, verdict.lookups
    );
    for problem in verdict.problems.iter().take(SHOWN) {
        println!("  {problem}");
    }
    if verdict.problems.len() > SHOWN {
        println!("  … and {} more", verdict.problems.len() - SHOWN);
    }
    println!(
        "{}, {rounds} rounds: {} acknowledged ({} begins, {} settlements), {} lost, {} doubled, {} problems",
        if options.mode == Mode::Synchronous { "synchronous" } else { "asynchronous" },
        verdict.begins + verdict.settlements,
        verdict.begins,
        verdict.settlements,
        verdict.lost.len(),
        verdict.doubled.len(),
        verdict.problems.len()
    );
}
