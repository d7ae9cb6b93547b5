//! A day of fifty cells that verify at one service, driven by a simulated clock: the rules of [`claims_model::due`], and the service's
//! slots. Cells crash, are restarted, and all are restarted at the same moment. Faults in the rules must be noticed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use claims_model::backoff::Backoff;
use claims_model::due::{self, MAX_DELAY, PAUSES, SLOT_EXTEND_INTERVAL, SLOT_HELD_FOR};

const CELLS: usize = 50;
const SOURCE_TYPES: usize = 3;
const SLOTS: usize = 2;
const INTERVAL: Duration = Duration::from_secs(4 * 3600);
const DAY: Ms = 24 * 3600 * 1000;
/// When all cells are restarted at the same moment.
const NOON: Ms = DAY / 2;
/// A job that is due for so long was starved: all jobs of the fleet, which are due at the same time, take two hours with two slots.
const LATEST: Ms = 3 * 3600 * 1000;

/// Milliseconds since the start of the day.
type Ms = u64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// The service gives a slot to everybody.
    NoLimit,
    /// A verification that takes long does not extend its slot.
    NotExtended,
    /// A cell that is done, or that crashed, keeps its slot for ever.
    NeverFree,
    /// All cells begin at the same moment.
    NoDelay,
    /// A restart forgets when the jobs ran.
    Forgets,
    /// A cell without a slot waits for a whole interval.
    NotRepeated,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The worker of a cell looks for a job that is due, or continues the one that it does.
    Step,
    /// The server of the cell crashes.
    Crash,
    Start,
}

struct Job {
    due: Ms,
    pauses: Backoff,
    /// The end of the last pass that succeeded, as in `claims.passes`.
    last: Option<Ms>,
}

#[derive(Default)]
struct Cell {
    jobs: Vec<Job>,
    /// The job that is being done, and its end.
    running: Option<(usize, Ms)>,
    /// Counts starts: steps of an earlier start are void.
    start: u64,
}

/// Observations of a day.
#[derive(Default)]
struct Seen {
    most_at_once: usize,
    /// The most cells that asked for a slot for the first time in six seconds after they were started together.
    most_first_asks: usize,
    passes: usize,
    crashed_while_verifying: usize,
    /// A pass began before its interval had ended.
    too_early: usize,
    /// The longest time for which a job was due in a cell that was up.
    latest: Ms,
}

struct Random(u64);

impl Random {
    /// Returns a number from `low` to `high`. (SplitMix64.)
    fn between(&mut self, low: u64, high: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        low + (z ^ (z >> 31)) % (high - low + 1)
    }
}

struct Fleet {
    fault: Fault,
    random: Random,
    now: Ms,
    events: BinaryHeap<Reverse<(Ms, usize, Event, u64)>>,
    cells: Vec<Cell>,
    /// `claims.verification_slots`: until when each cell holds one.
    slots: BTreeMap<usize, Ms>,
    first_asks: Vec<Ms>,
    has_asked: [bool; CELLS],
    seen: Seen,
}

fn ms(duration: Duration) -> Ms {
    u64::try_from(duration.as_millis()).unwrap()
}

impl Fleet {
    fn at(&mut self, after: Ms, cell: usize, event: Event) {
        let start = self.cells[cell].start;
        self.events.push(Reverse((self.now + after, cell, event, start)));
    }

    /// Does as the statement HOLD of the service.
    fn hold(&mut self, cell: usize) -> bool {
        let others = self.slots.iter().filter(|(of, until)| **of != cell && **until > self.now).count();
        if others >= SLOTS && self.fault != Fault::NoLimit {
            return false;
        }
        let until = if self.fault == Fault::NeverFree { Ms::MAX } else { self.now + ms(SLOT_HELD_FOR) };
        self.slots.insert(cell, until);
        true
    }

    fn start(&mut self, cell: usize) {
        let (now, fault) = (self.now, self.fault);
        let own = &mut self.cells[cell];
        own.start += 1;
        own.running = None;
        let delay = match fault {
            Fault::NoDelay => Duration::ZERO,
            _ => due::delay(&format!("{}-5", 7_000_000 + cell), 1 + cell as i64, INTERVAL),
        };
        for job in &mut own.jobs {
            let last = job.last.filter(|_| fault != Fault::Forgets);
            let elapsed = last.map(|last| (now - last) as f64 / 1000.0);
            *job =
                Job { due: now + ms(due::left_of_interval(elapsed, INTERVAL) + delay), pauses: PAUSES, last: job.last };
        }
        self.at(0, cell, Event::Step);
        // A cell crashes about ten times a day.
        let until_crash = self.random.between(60_000, DAY / 5);
        self.at(until_crash, cell, Event::Crash);
    }

    fn step(&mut self, cell: usize) {
        let now = self.now;
        if let Some((job, end)) = self.cells[cell].running {
            if now >= end {
                self.finish(cell, job);
            } else if self.fault != Fault::NotExtended && !self.hold(cell) {
                self.fail(cell, job);
            } else {
                let next = ms(SLOT_EXTEND_INTERVAL) + self.random.between(0, 60_000);
                return self.at(next.min(end - now), cell, Event::Step);
            }
        }
        let is_due = |job: &Job| job.due <= now;
        if let Some(job) = self.cells[cell].jobs.iter().position(is_due) {
            self.try_job(cell, job);
        }
        if self.cells[cell].running.is_none() {
            let next = self.cells[cell].jobs.iter().map(|job| job.due.saturating_sub(now)).min().unwrap_or(DAY);
            self.at(next.max(1), cell, Event::Step);
        }
    }

    fn try_job(&mut self, cell: usize, job: usize) {
        let now = self.now;
        if !std::mem::replace(&mut self.has_asked[cell], true) {
            self.first_asks.push(now);
        }
        let found = &self.cells[cell].jobs[job];
        self.seen.too_early += usize::from(found.last.is_some_and(|last| now < last + ms(INTERVAL)));
        if !self.hold(cell) {
            return self.fail(cell, job);
        }
        let took = if self.random.between(0, 9) == 0 { 200_000..=600_000 } else { 1000..=120_000 };
        let took = self.random.between(*took.start(), *took.end());
        self.cells[cell].running = Some((job, now + took));
        let running = self.cells.iter().filter(|cell| cell.running.is_some()).count();
        self.seen.most_at_once = self.seen.most_at_once.max(running);
        let next = ms(SLOT_EXTEND_INTERVAL) + self.random.between(0, 60_000);
        self.at(next.min(took), cell, Event::Step);
    }

    fn fail(&mut self, cell: usize, job: usize) {
        let (now, fault) = (self.now, self.fault);
        self.cells[cell].running = None;
        let job = &mut self.cells[cell].jobs[job];
        job.due = now
            + ms(if fault == Fault::NotRepeated { INTERVAL } else { due::after_failure(&mut job.pauses, INTERVAL) });
    }

    fn finish(&mut self, cell: usize, job: usize) {
        let now = self.now;
        self.cells[cell].running = None;
        if self.fault != Fault::NeverFree {
            self.slots.remove(&cell);
        }
        self.seen.passes += 1;
        let job = &mut self.cells[cell].jobs[job];
        // The first pass has no interval before it.
        let since = job.last.map_or(0, |last| last + ms(INTERVAL));
        self.seen.latest = self.seen.latest.max(now.saturating_sub(since));
        *job = Job { due: now + ms(INTERVAL), pauses: PAUSES, last: Some(now) };
    }

    fn crash(&mut self, cell: usize) {
        let own = &mut self.cells[cell];
        self.seen.crashed_while_verifying += usize::from(own.running.take().is_some());
        own.start += 1;
        let down = self.random.between(100, 60_000);
        self.at(down, cell, Event::Start);
    }

    /// Restarts all cells at this moment, and counts how close together they ask for slots then.
    fn restart_all(&mut self) {
        self.note_first_asks();
        self.has_asked = [false; CELLS];
        (0..CELLS).for_each(|cell| self.start(cell));
    }

    fn note_first_asks(&mut self) {
        let asks = std::mem::take(&mut self.first_asks);
        let close = |from: &Ms| asks.iter().filter(|at| (*from..from + 6000).contains(at)).count();
        self.seen.most_first_asks = self.seen.most_first_asks.max(asks.iter().map(close).max().unwrap_or(0));
    }
}

fn day(seed: u64, fault: Fault) -> Seen {
    let job = || Job { due: 0, pauses: PAUSES, last: None };
    let cell = || Cell { jobs: (0..SOURCE_TYPES).map(|_| job()).collect(), ..Cell::default() };
    let mut fleet = Fleet {
        fault,
        random: Random(seed),
        now: 0,
        events: BinaryHeap::new(),
        cells: (0..CELLS).map(|_| cell()).collect(),
        slots: BTreeMap::new(),
        first_asks: Vec::new(),
        has_asked: [false; CELLS],
        seen: Seen::default(),
    };
    fleet.restart_all();
    let mut is_afternoon = false;
    while let Some(Reverse((at, cell, event, start))) = fleet.events.pop() {
        if at > DAY {
            break;
        }
        if at >= NOON && !std::mem::replace(&mut is_afternoon, true) {
            fleet.now = NOON;
            fleet.restart_all();
        }
        fleet.now = at;
        // Events of a server that has ended since are void.
        if start == fleet.cells[cell].start {
            match event {
                Event::Step => fleet.step(cell),
                Event::Crash => fleet.crash(cell),
                Event::Start => fleet.start(cell),
            }
        }
    }
    fleet.note_first_asks();
    // Jobs that are still due at the end of the day count, too.
    let waiting =
        fleet.cells.iter().flat_map(|cell| &cell.jobs).map(|job| job.last.map_or(0, |last| last + ms(INTERVAL)));
    let latest = waiting.map(|since| DAY.saturating_sub(since)).max().unwrap_or(0);
    Seen { latest: fleet.seen.latest.max(latest), ..fleet.seen }
}

/// Returns the broken promises of a day.
fn broken(seed: u64, fault: Fault) -> Vec<&'static str> {
    let seen = day(seed, fault);
    if fault == Fault::None {
        assert!(seen.passes > 3 * CELLS * SOURCE_TYPES, "only {} passes", seen.passes);
        assert!(seen.crashed_while_verifying > 0 && seen.most_at_once > 1, "too little happened");
    }
    let broken = [
        (seen.most_at_once > SLOTS, "slots"),
        (seen.most_first_asks > CELLS / 5, "spread"),
        (seen.too_early > 0, "interval"),
        (seen.latest > LATEST + ms(MAX_DELAY), "starved"),
    ];
    broken.into_iter().filter_map(|(is_broken, promise)| is_broken.then_some(promise)).collect()
}

#[test]
fn fifty_cells_share_two_slots_for_a_day() {
    for seed in 0..40 {
        assert_eq!(broken(seed, Fault::None), [""; 0], "seed {seed}");
    }
}

#[test]
fn faults_in_the_rules_are_noticed() {
    let faults = [
        (Fault::NoLimit, "slots"),
        (Fault::NotExtended, "slots"),
        (Fault::NeverFree, "starved"),
        (Fault::NoDelay, "spread"),
        (Fault::Forgets, "interval"),
        (Fault::NotRepeated, "starved"),
    ];
    for (fault, promise) in faults {
        assert!(broken(1, fault).contains(&promise), "{fault:?} breaks {:?}", broken(1, fault));
    }
}
