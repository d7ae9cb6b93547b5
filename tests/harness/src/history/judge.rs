//! The verdict on all notes.

use super::chain::{Chain, Link, Segment, follow};
use super::event::{Deed, Event, Outcome, State, Window};
use super::tenure::{Merged, Tenure, merge};
use std::collections::{BTreeMap, HashMap};
use uuid::Uuid;

/// The state of the server after everything is settled.
#[derive(Clone, Debug, Default)]
pub struct Final {
    /// The state and owner of every claim, by bucket.
    pub claims: HashMap<String, State>,
}

/// The verdict, and its reasons.
#[derive(Debug, Default)]
pub struct Verdict {
    pub problems: Vec<String>,
    /// Leases with contradictory facts.
    pub broken: Vec<Uuid>,
    /// Buckets that two cells had at once.
    pub doubled: Vec<String>,
    pub leases: usize,
    pub committed: usize,
    pub rolled_back: usize,
    pub buckets: usize,
    /// How often a bucket passed from one cell to another.
    pub changes_of_owner: usize,
    pub sightings: usize,
    /// Every lease that certainly ended, with its outcome.
    pub outcomes: Vec<(Uuid, i64, Outcome)>,
}

/// Compares the notes of all clients with each other and with the end state.
pub fn judge(events: &[Event], end: &Final) -> Verdict {
    let mut verdict = Verdict::default();
    let (held, maybe) = merge_all(events, &mut verdict);
    let mut links: BTreeMap<&str, Vec<Link>> = BTreeMap::new();
    for tenure in &held {
        for (bucket, creates) in parts(tenure) {
            links.entry(bucket).or_default().push(Link { tenure, creates });
        }
    }
    verdict.buckets = links.len();
    let mut chains: HashMap<&str, Chain> = HashMap::new();
    for (bucket, links) in links {
        let mut chain = follow(bucket, links);
        verdict.problems.append(&mut chain.problems);
        verdict.changes_of_owner += changes_of_owner(&chain.segments);
        if chain.doubled {
            verdict.doubled.push(bucket.to_string());
        }
        chains.insert(bucket, chain);
    }
    compare_end(&chains, end, &mut verdict);
    check_sightings(events, &chains, &maybe, &mut verdict);
    verdict
}

/// Collects and merges the facts of each lease.
fn merge_all(events: &[Event], verdict: &mut Verdict) -> (Vec<Tenure>, Vec<Tenure>) {
    let mut deeds: BTreeMap<Uuid, Vec<(Deed, Window)>> = BTreeMap::new();
    for event in events {
        if let Event::Lease { lease, deed, at } = event {
            deeds.entry(*lease).or_default().push((deed.clone(), *at));
        }
    }
    let (mut held, mut maybe) = (Vec::new(), Vec::new());
    for (lease, deeds) in &deeds {
        match merge(*lease, deeds) {
            Ok(Merged::Held(tenure)) => held.push(tenure),
            Ok(Merged::Maybe(tenure)) => maybe.push(tenure),
            Ok(Merged::Nothing) => {}
            Err(problem) => {
                verdict.problems.push(problem);
                verdict.broken.push(*lease);
            }
        }
    }
    verdict.leases = held.len();
    verdict.committed = held.iter().filter(|t| t.outcome == Outcome::Committed).count();
    verdict.rolled_back = held.len() - verdict.committed;
    verdict.outcomes = held.iter().map(|t| (t.lease, t.cell, t.outcome)).collect();
    (held, maybe)
}

/// Returns the buckets of a lease, and whether it creates them.
fn parts(tenure: &Tenure) -> impl Iterator<Item = (&str, bool)> {
    let creates = tenure.batch.creates.iter().map(|(name, _)| (name.as_str(), true));
    creates.chain(tenure.batch.destroys.iter().map(|name| (name.as_str(), false)))
}

fn changes_of_owner(segments: &[Segment]) -> usize {
    let owner = |(state, _): &Segment| if let State::Active(cell) = state { Some(*cell) } else { None };
    let owners: Vec<i64> = segments.iter().filter_map(owner).collect();
    owners.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

/// Checks that the last state of every bucket is that of the table.
fn compare_end(chains: &HashMap<&str, Chain>, end: &Final, verdict: &mut Verdict) {
    for (bucket, chain) in chains {
        let shown = end.claims.get(*bucket).copied().unwrap_or(State::Free);
        if shown != chain.last() {
            verdict
                .problems
                .push(format!("bucket {bucket}: the notes end with {:?}, the server shows {shown:?}", chain.last()));
        }
    }
    for (bucket, state) in end.claims.iter().filter(|(b, _)| !chains.contains_key(b.as_str())) {
        verdict.problems.push(format!("bucket {bucket}: the server shows {state:?}, nobody claimed it"));
    }
}

/// Checks that each state that a client saw was possible at some time in the window of its call.
fn check_sightings(events: &[Event], chains: &HashMap<&str, Chain>, maybe: &[Tenure], verdict: &mut Verdict) {
    let mut possible: HashMap<&str, Vec<Segment>> = HashMap::new();
    for tenure in maybe {
        for (bucket, creates) in parts(tenure) {
            let state = if creates { State::Creating(tenure.cell) } else { State::Destroying(tenure.cell) };
            let extent = Window::new(tenure.begin.lo, tenure.end.hi);
            possible.entry(bucket).or_default().push((state, extent));
        }
    }
    let free = [(State::Free, Window::new(0, u64::MAX))];
    for event in events {
        let Event::Seen { bucket, any_of, at } = event else { continue };
        verdict.sightings += 1;
        let chain = chains.get(bucket.as_str()).map_or(free.as_slice(), |c| c.segments.as_slice());
        let more = possible.get(bucket.as_str()).map_or([].as_slice(), Vec::as_slice);
        if !chain.iter().chain(more).any(|(s, extent)| any_of.contains(s) && extent.meets(*at)) {
            verdict.problems.push(format!(
                "bucket {bucket}: a client was shown {any_of:?} at {:.3} ms, when it cannot have been so",
                at.lo as f64 / 1e6
            ));
        }
    }
}
