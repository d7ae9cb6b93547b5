//! Counters for each cell, in shared memory. They count from the start of the server, and exist only if the library is preloaded.
//!
//! Begins and ends of leases count when their transaction commits, so that begins minus commits minus rollbacks are the
//! outstanding leases. Work that a savepoint undoes is not counted. A prepared transaction counts when it is prepared. Conflicts
//! and durations count when the call answers. Counting takes no lock and cannot fail.

use std::cell::RefCell;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use claims_model::conflict::SKIPPABLE;
use claims_model::{Reason, nesting};
use zerocopy::FromBytes;

use crate::kernel::cell_slots::{self, CellSlot, MAX_CELLS};
use pg::background::own_database;
use pg::clock::Moment;
use pg::shared::Shared;
use pg::transaction_end::{Hooks, current_subtransaction};

/// The upper bounds of a histogram's buckets, in nanoseconds, and as text in seconds. One more bucket has no bound.
pub const BOUNDS: [(u64, &str); 15] = [
    (50_000, "0.00005"),
    (100_000, "0.0001"),
    (250_000, "0.00025"),
    (500_000, "0.0005"),
    (1_000_000, "0.001"),
    (2_500_000, "0.0025"),
    (5_000_000, "0.005"),
    (10_000_000, "0.01"),
    (25_000_000, "0.025"),
    (50_000_000, "0.05"),
    (100_000_000, "0.1"),
    (250_000_000, "0.25"),
    (500_000_000, "0.5"),
    (1_000_000_000, "1"),
    (2_500_000_000, "2.5"),
];
const BUCKETS: usize = BOUNDS.len() + 1;

/// A histogram of the durations of calls.
#[derive(FromBytes)]
pub struct Durations {
    buckets: [AtomicU64; BUCKETS],
    nanoseconds: AtomicU64,
}

#[derive(FromBytes)]
pub struct CellCounters {
    owner: AtomicU64,
    begins: AtomicU64,
    commits: AtomicU64,
    rollbacks: AtomicU64,
    fences: AtomicU64,
    /// Conflicts by reason, in the order of `Reason::ALL`.
    conflicts: [AtomicU64; Reason::ALL.len()],
    /// Destroys that begins have skipped, in the order of `SKIPPABLE`.
    skipped: [AtomicU64; SKIPPABLE.len()],
    begin_durations: Durations,
    settle_durations: Durations,
    /// Waits for names, by how they ended, in the order of `WaitEnd::ALL`.
    waits: [AtomicU64; WaitEnd::ALL.len()],
    wait_durations: Durations,
}

/// The way in which a wait for names has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitEnd {
    /// A name belongs to somebody for good.
    Taken,
    /// The call has got its names.
    Got,
    Timeout,
    /// By a cancel, or by any other error.
    Cancelled,
}

impl WaitEnd {
    const ALL: [WaitEnd; 4] = [WaitEnd::Taken, WaitEnd::Got, WaitEnd::Timeout, WaitEnd::Cancelled];

    /// Returns the name in metrics.
    fn name(self) -> &'static str {
        match self {
            WaitEnd::Taken => "taken",
            WaitEnd::Got => "got",
            WaitEnd::Timeout => "timeout",
            WaitEnd::Cancelled => "cancelled",
        }
    }
}

impl CellSlot for CellCounters {
    fn owner(&self) -> &AtomicU64 {
        &self.owner
    }
}

pub static CELLS: Shared<[CellCounters; MAX_CELLS]> = Shared::new(c"claims counters");

fn add(counter: &AtomicU64, by: u64) {
    if by > 0 {
        counter.fetch_add(by, Ordering::Relaxed);
    }
}

fn of_cell(cell_id: i64) -> Option<&'static CellCounters> {
    CELLS.get().and_then(|cells| cell_slots::own(cells, cell_id))
}

// --- answers ---------------------------------------------------------------------------------------------------------

impl Durations {
    fn add(&self, took: Duration) {
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.iter().position(|(bound, _)| nanoseconds <= *bound).unwrap_or(BOUNDS.len());
        add(&self.buckets[bucket], 1);
        add(&self.nanoseconds, nanoseconds);
    }
}

/// Counts the duration of a begin that was answered with a lease or with conflicts.
pub fn begin_took(cell_id: i64, took: Duration) {
    if let Some(counters) = of_cell(cell_id) {
        counters.begin_durations.add(took);
    }
}

/// Counts the duration of a call that settled a single lease.
pub fn settle_took(cell_id: i64, took: Duration) {
    if let Some(counters) = of_cell(cell_id) {
        counters.settle_durations.add(took);
    }
}

/// Counts a begin that has waited for names.
pub fn waited(cell_id: i64, end: WaitEnd, took: Duration) {
    if let Some(counters) = of_cell(cell_id) {
        add(&counters.waits[end as usize], 1);
        counters.wait_durations.add(took);
    }
}

/// Counts a begin that was refused, by the decisive reason of its conflicts.
pub fn refused(cell_id: i64, reason: Option<Reason>) {
    let place = reason.and_then(|reason| Reason::ALL.iter().position(|known| *known == reason));
    if let Some((counters, place)) = of_cell(cell_id).zip(place) {
        add(&counters.conflicts[place], 1);
    }
}

// --- what a transaction does -------------------------------------------------------------------------------------------

/// The counts of one (sub)transaction for a cell.
#[derive(Debug, Clone, Copy, Default)]
struct CellCounts {
    begins: u64,
    commits: u64,
    rollbacks: u64,
    fences: u64,
    skipped: [u64; SKIPPABLE.len()],
}

impl CellCounts {
    fn add(&mut self, other: CellCounts) {
        self.begins += other.begins;
        self.commits += other.commits;
        self.rollbacks += other.rollbacks;
        self.fences += other.fences;
        self.skipped.iter_mut().zip(other.skipped).for_each(|(skipped, more)| *skipped += more);
    }
}

struct UncountedChanges {
    cell_id: i64,
    subtransaction: u32,
    done: CellCounts,
}

thread_local! {
    /// The counts of this transaction in order, by subtransaction (`claims_model::nesting`).
    static PENDING: RefCell<Vec<UncountedChanges>> = const { RefCell::new(Vec::new()) };
}

fn count(cell_id: i64, done: CellCounts) {
    if CELLS.get().is_some() {
        PENDING.with_borrow_mut(|all| put(all, cell_id, current_subtransaction(), done));
    }
}

/// Adds counts to the last entry if it is of the same cell and subtransaction, and otherwise adds an entry.
fn put(all: &mut Vec<UncountedChanges>, cell_id: i64, subtransaction: u32, done: CellCounts) {
    match all.last_mut() {
        Some(last) if (last.cell_id, last.subtransaction) == (cell_id, subtransaction) => last.done.add(done),
        _ => all.push(UncountedChanges { cell_id, subtransaction, done }),
    }
}

/// Joins the counts of a released subtransaction with those of its parent, if each has one entry at the end of the list.
fn join(all: &mut Vec<UncountedChanges>, own: u32, parent: u32) {
    if let Some(last) = all.pop_if(|last| last.subtransaction >= own) {
        match all.last() {
            // Entries of several cells stay apart: a rollback of the parent removes all of them.
            Some(other) if other.subtransaction >= own => all.push(last),
            _ => put(all, last.cell_id, parent, last.done),
        }
    }
}

/// Counts a lease that has begun. A repeat does not count.
pub fn begun(cell_id: i64) {
    count(cell_id, CellCounts { begins: 1, ..CellCounts::default() });
}

/// Counts the destroys that a begin has skipped, by reason.
pub fn skipped(cell_id: i64, reasons: impl Iterator<Item = Reason>) {
    let mut counts = CellCounts::default();
    for place in reasons.filter_map(|reason| SKIPPABLE.iter().position(|known| *known == reason)) {
        counts.skipped[place] += 1;
    }
    if counts.skipped.iter().any(|count| *count > 0) {
        count(cell_id, counts);
    }
}

pub fn committed(cell_id: i64, leases: usize) {
    count(cell_id, CellCounts { commits: leases as u64, ..CellCounts::default() });
}

pub fn rolled_back(cell_id: i64, leases: usize) {
    count(cell_id, CellCounts { rollbacks: leases as u64, ..CellCounts::default() });
}

pub fn fenced(cell_id: i64, leases: usize) {
    count(cell_id, CellCounts { fences: leases as u64, ..CellCounts::default() });
}

/// Adds the pending counts to the shared counters.
fn flush() {
    PENDING.with_borrow_mut(|all| {
        // drain() keeps the allocation for the next transaction.
        for UncountedChanges { cell_id, done, .. } in all.drain(..) {
            let Some(counters) = of_cell(cell_id) else { continue };
            add(&counters.begins, done.begins);
            add(&counters.commits, done.commits);
            add(&counters.rollbacks, done.rollbacks);
            add(&counters.fences, done.fences);
            counters.skipped.iter().zip(done.skipped).for_each(|(counter, by)| add(counter, by));
        }
    });
}

pub const HOOKS: Hooks = Hooks {
    committed: flush,
    aborted: || PENDING.with_borrow_mut(Vec::clear),
    // Counts that are left here belong to a transaction that was prepared.
    end: flush,
    released: |own, parent| PENDING.with_borrow_mut(|all| join(all, own, parent)),
    rolled_back: |own| {
        PENDING.with_borrow_mut(|all| all.truncate(nesting::first_since(all, own, |pending| pending.subtransaction)));
    },
    ..Hooks::NONE
};

// --- check() -----------------------------------------------------------------------------------------------------------

/// Maximum number of databases whose last check() is remembered.
const MAX_DATABASES: usize = 64;

#[derive(FromBytes)]
pub struct Check {
    owner: AtomicU64,
    /// The time at which it ended.
    at: AtomicI64,
    problems: AtomicI64,
    future: AtomicI64,
}

/// The result of a `check()`, which `metrics()` shows.
#[derive(Debug, Clone, Copy)]
pub struct Checked {
    /// The time at which it ended.
    pub at: Moment,
    /// Number of violations, without rows dated in the future.
    pub problems: i64,
    /// Number of rows dated in the future, because a clock was wrong.
    pub future: i64,
}

pub static CHECKS: Shared<[Check; MAX_DATABASES]> = Shared::new(c"claims checks");

fn check_here() -> Option<&'static Check> {
    let here = u64::from(own_database());
    let is_here = |check: &&Check| match check.owner.compare_exchange(0, here, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => true,
        Err(owner) => owner == here,
    };
    CHECKS.get().and_then(|checks| checks.iter().find(is_here))
}

/// Remembers the result of a `check()` of this database.
pub fn checked(result: Checked) {
    if let Some(check) = check_here() {
        check.problems.store(result.problems, Ordering::Relaxed);
        check.future.store(result.future, Ordering::Relaxed);
        check.at.store(result.at.0, Ordering::Relaxed);
    }
}

/// Returns the result of this database's last `check()`, or `None` if there was none since the server started.
pub fn last_check() -> Option<Checked> {
    let check = check_here()?;
    let at = check.at.load(Ordering::Relaxed);
    (at != 0).then(|| Checked {
        at: Moment(at),
        problems: check.problems.load(Ordering::Relaxed),
        future: check.future.load(Ordering::Relaxed),
    })
}

// --- reading -----------------------------------------------------------------------------------------------------------

/// A histogram that was read: the number of calls up to each bound, the total number, and their sum in seconds.
pub struct SeenDurations {
    pub up_to: Vec<(&'static str, u64)>,
    pub count: u64,
    pub seconds: f64,
}

impl Durations {
    fn seen(&self) -> SeenDurations {
        let mut count = 0;
        let mut up_to = Vec::with_capacity(BUCKETS);
        let bounds = BOUNDS.iter().map(|(_, bound)| *bound).chain(["+Inf"]);
        for (bucket, bound) in self.buckets.iter().zip(bounds) {
            count += bucket.load(Ordering::Relaxed);
            up_to.push((bound, count));
        }
        let seconds = self.nanoseconds.load(Ordering::Relaxed) as f64 / 1e9;
        SeenDurations { up_to, count, seconds }
    }
}

/// The counters of a cell that were read.
pub struct ReadCounters {
    pub begins: u64,
    pub commits: u64,
    pub rollbacks: u64,
    pub fences: u64,
    pub conflicts: Vec<(&'static str, u64)>,
    pub skipped: Vec<(&'static str, u64)>,
    pub begin_durations: SeenDurations,
    pub settle_durations: SeenDurations,
    pub waits: Vec<(&'static str, u64)>,
    pub wait_durations: SeenDurations,
}

fn by_reason(reasons: &[Reason], counters: &[AtomicU64]) -> Vec<(&'static str, u64)> {
    reasons.iter().zip(counters).map(|(reason, counter)| (reason.name(), counter.load(Ordering::Relaxed))).collect()
}

/// Returns the counters of a cell, or `None` if nothing was counted for it or the library is not preloaded.
pub fn seen(cell_id: i64) -> Option<ReadCounters> {
    let cell = CELLS.get().and_then(|cells| cell_slots::existing(cells, cell_id))?;
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Some(ReadCounters {
        begins: read(&cell.begins),
        commits: read(&cell.commits),
        rollbacks: read(&cell.rollbacks),
        fences: read(&cell.fences),
        conflicts: by_reason(&Reason::ALL, &cell.conflicts),
        skipped: by_reason(&SKIPPABLE, &cell.skipped),
        begin_durations: cell.begin_durations.seen(),
        settle_durations: cell.settle_durations.seen(),
        waits: WaitEnd::ALL.iter().map(|end| (end.name(), read(&cell.waits[*end as usize]))).collect(),
        wait_durations: cell.wait_durations.seen(),
    })
}
