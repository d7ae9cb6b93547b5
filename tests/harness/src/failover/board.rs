//! What the writers share, and what each of them writes down.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use uuid::Uuid;

use crate::history::{Deed, Event, Outcome, Window};

/// One writer for each.
pub const CELLS: i64 = 16;

pub struct Board {
    started: Instant,
    /// The relays of the nodes.
    pub ports: Vec<u16>,
    pub password: String,
    pub seed: u64,
    /// Names are new in every round: no bucket has a history without end.
    pub round: AtomicUsize,
    /// Write less, so that the nodes catch up.
    slow: AtomicBool,
    /// Begin nothing more, and bring to an end what is begun.
    over: AtomicBool,
    /// Not even that.
    abandoned: AtomicBool,
    /// Every acknowledged begin and settlement.
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

    /// Nanoseconds of a clock that only goes forward.
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

    /// How many calls have been acknowledged so far.
    pub fn count(&self) -> usize {
        self.acknowledged.lock().unwrap().len()
    }

    /// Whether a call that was sent after that moment has been acknowledged.
    pub fn serves_since(&self, moment: u64) -> bool {
        self.acknowledged.lock().unwrap().iter().rev().take(500).any(|at| at.lo > moment)
    }

    /// The longest time without an acknowledgement, in seconds, among the calls from number `first` on, that was not over
    /// at `from`. With `since` it counts from that moment on only.
    pub fn longest_silence(&self, first: usize, from: u64, since: bool) -> f64 {
        let mut answers: Vec<u64> = self.acknowledged.lock().unwrap()[first..].iter().map(|at| at.hi).collect();
        answers.extend(since.then_some(from));
        answers.sort_unstable();
        let silences = answers.windows(2).filter(|pair| pair[1] > from).map(|pair| pair[1] - pair[0]);
        silences.max().unwrap_or_default() as f64 / 1e9
    }
}

/// What a writer was told, and what else it knows.
#[derive(Debug, Default)]
pub struct Notes {
    pub events: Vec<Event>,
    /// What look-ups showed. They are not promised to be up to date.
    pub sightings: Vec<Event>,
    /// How the local transaction of a lease ended that nobody has settled.
    pub decided: HashMap<Uuid, Outcome>,
    /// What calls were refused with, and how often.
    pub refusals: BTreeMap<String, u64>,
    pub conflicts: u64,
    /// What must not be answered, by what was asked.
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
