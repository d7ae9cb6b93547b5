//! The notes of one worker: the history, the latency of calls, and wrong answers.

use super::queue::Taken;
use crate::history::{Deed, Event, State, Window};
use std::collections::BTreeMap;
use uuid::Uuid;

/// The number of problems that are kept as text. The others are counted.
const KEPT: usize = 20;

#[derive(Debug, Default)]
pub struct Notes {
    pub events: Vec<Event>,
    /// The begins that have taken names, without repeats.
    pub taken: Vec<Taken>,
    /// The latencies of each kind of call, in nanoseconds.
    pub latencies: BTreeMap<&'static str, Vec<u64>>,
    /// The number of refusals by kind of call and SQLSTATE (`lost` is a lost connection).
    pub refusals: BTreeMap<(&'static str, String), u64>,
    pub conflicts: BTreeMap<String, u64>,
    pub problems: Vec<String>,
    pub more_problems: usize,
    pub scripts: u64,
    pub scripts_committed: u64,
}

impl Notes {
    pub fn deed(&mut self, lease: Uuid, deed: Deed, at: Window) {
        self.events.push(Event::Lease { lease, deed, at });
    }

    pub fn seen(&mut self, bucket: &str, any_of: Vec<State>, at: Window) {
        self.events.push(Event::Seen { bucket: bucket.to_string(), any_of, at });
    }

    pub fn problem(&mut self, what: String) {
        if self.problems.len() < KEPT {
            self.problems.push(what);
        } else {
            self.more_problems += 1;
        }
    }

    pub fn took(&mut self, kind: &'static str, at: Window) {
        self.latencies.entry(kind).or_default().push(at.hi - at.lo);
    }

    pub fn refused(&mut self, kind: &'static str, code: &str) {
        *self.refusals.entry((kind, code.to_string())).or_default() += 1;
    }

    pub fn merge(&mut self, other: Self) {
        self.events.extend(other.events);
        self.taken.extend(other.taken);
        for (kind, latencies) in other.latencies {
            self.latencies.entry(kind).or_default().extend(latencies);
        }
        for (key, n) in other.refusals {
            *self.refusals.entry(key).or_default() += n;
        }
        for (key, n) in other.conflicts {
            *self.conflicts.entry(key).or_default() += n;
        }
        self.more_problems += other.more_problems;
        other.problems.into_iter().for_each(|p| self.problem(p));
        self.scripts += other.scripts;
        self.scripts_committed += other.scripts_committed;
    }
}
