//! The state that writers share, and the notes of each.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use uuid::Uuid;

use crate::history::{Deed, Event, Outcome, Window};

/// The number of cells. Each has one writer.
pub const CELLS: i64 = 16;

pub struct Board {
    started: Instant,
    /// The ports of the nodes' relays.
    pub ports: Vec<u16>,
    pub password: String,
    pub seed: u64,
    /// The round. Each has new names, so that no bucket has a long history.
    pub round: AtomicUsize,
    /// Makes the writers slower, so that the nodes catch up.
    slow: AtomicBool,
    /// Stops new leases, and ends those that are outstanding.
    over: AtomicBool,
    /// Stops everything.
    abandoned: AtomicBool,
    /// The windows of all acknowledged begins and settlements.
    acknowledged: Mutex<Vec<Window>>,
}

impl Board {
    pub fn new(ports: Vec<u16>, password: String, seed: u64) -> Self {
        Self {
            started: Instant::now(),
            ports,
            password,
            seed,
            round: AtomicUsize::new(0),
            slow: AtomicBool::new(false),
            over: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            acknowledged: Mutex::new(Vec::new()),
        }
    }

    /// Returns the nanoseconds of a monotonic clock.
    pub fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub fn slow_down(&self, slow: bool) {
        self.slow.store(slow, Relaxed);
    }

    pub fn is_slow(&self) -> bool {
        self.slow.load(Relaxed)
    }

    pub fn end(&self) {
        self.over.store(true, Relaxed);
    }

    pub fn abandon(&self) {
        self.abandoned.store(true, Relaxed);
        self.end();
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    pub fn is_abandoned(&self) -> bool {
        self.abandoned.load(Relaxed)
    }

    pub fn acknowledge(&self, at: Window) {
        self.acknowledged.lock().unwrap().push(at);
    }

    /// Returns the number of acknowledged calls so far.
    pub fn count(&self) -> usize {
        self.acknowledged.lock().unwrap().len()
    }

    /// Returns whether a call that was sent after this time was acknowledged.
    pub fn serves_since(&self, moment: u64) -> bool {
        self.acknowledged.lock().unwrap().iter().rev().take(500).any(|at| at.lo > moment)
    }

    /// Returns the longest time without an acknowledgement, in seconds, among the calls from number `first` on, that
    /// ended after `from`. With `since` it counts only from that time on.
    pub fn longest_silence(&self, first: usize, from: u64, since: bool) -> f64 {
        let mut answers: Vec<u64> = self.acknowledged.lock().unwrap()[first..].iter().map(|at| at.hi).collect();
        answers.extend(since.then_some(from));
        answers.sort_unstable();
        let silences = answers.windows(2).filter(|pair| pair[1] > from).map(|pair| pair[1] - pair[0]);
        silences.max().unwrap_or_default() as f64 / 1e9
    }
}

/// The answers to a writer, and its other knowledge.
#[derive(Debug, Default)]
pub struct Notes {
    pub events: Vec<Event>,
    /// The results of look-ups, which need not be up to date.
    pub sightings: Vec<Event>,
    /// How the local transactions of unsettled leases ended.
    pub decided: HashMap<Uuid, Outcome>,
    /// The number of refusals, by SQLSTATE.
    pub refusals: BTreeMap<String, u64>,
    pub conflicts: u64,
    /// Forbidden answers, by call.
    pub problems: Vec<String>,
}

impl Notes {
    pub fn deed(&mut self, lease: Uuid, deed: Deed, at: Window) {
        self.events.push(Event::Lease { lease, deed, at });
    }

    pub fn merge(&mut self, other: Self) {
        self.events.extend(other.events);
        self.sightings.extend(other.sightings);
        self.decided.extend(other.decided);
        self.conflicts += other.conflicts;
        self.problems.extend(other.problems);
        other.refusals.into_iter().for_each(|(code, n)| *self.refusals.entry(code).or_default() += n);
    }
}
