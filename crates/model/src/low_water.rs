//! A low-water mark per cell: no outstanding lease was created before it. Processes share two marks without locks;
//! begins lower them, and lists of leases raise them.
//!
//! Why no lease is missed: a list that was read to its first lease, from the low-water mark or from the beginning,
//! returns the oldest lease in its snapshot. A lease that the snapshot does not show is dead for ever, or its
//! transaction was running then, or it began later. Each begin lowers `low`, and then `low_water`, to the creation time of its lease,
//! after it has inserted the row and so has a transaction id. `low` is reset where a phase begins, and `since` is the
//! next transaction id after that. A phase ends only with a snapshot in which every transaction before `since` has
//! ended. So every row that this snapshot does not show, and that can still commit, has lowered `low` in this phase or
//! will lower `low_water` later. `low_water` becomes the minimum of the oldest lease in the list and `low`. No clock is
//! trusted: a lease with an earlier creation time lowers the marks like every other one. Prepared transactions count as
//! running. After a restart, a crash or a promotion the marks are unset, and need two lists.
//!
//! A snapshot that is older than a low-water mark may show leases below it, all of which have been settled since. It
//! does not use the mark, as far as clocks can tell, so that a list returns what its snapshot shows. Rows that are
//! written by hand or restored into the table do not lower the marks, so a list is read from its beginning every few
//! minutes.

use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

/// How long a low-water mark is used without a list from the beginning, in microseconds.
pub const TRUST_US: i64 = 5 * 60 * 1_000_000;

const BEGINNING: i64 = i64::MIN;

/// A moment that many processes read and change, each change in one step.
pub trait Mark {
    fn read(&self) -> i64;
    fn write(&self, moment: i64);
    /// Sets it to `moment` if it is later than that.
    fn lower(&self, moment: i64);
}

impl Mark for AtomicI64 {
    fn read(&self) -> i64 {
        self.load(SeqCst)
    }

    fn write(&self, moment: i64) {
        self.store(moment, SeqCst);
    }

    fn lower(&self, moment: i64) {
        if self.load(SeqCst) > moment {
            self.fetch_min(moment, SeqCst);
        }
    }
}

pub struct Marks<'m, M> {
    /// The earliest lease that was begun in this phase.
    pub low: &'m M,
    /// The low-water mark, once one was published: no outstanding lease is earlier.
    pub low_water: &'m M,
}

/// The times of a cell's phase. Its owner must serialize changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Phase {
    /// The next transaction id when the phase began; 0 if there was none.
    pub since: u64,
    /// When the low-water mark was published; 0 if never. `complete_until` is until when a list from the beginning has shown
    /// everything.
    pub published_at: i64,
    pub complete_until: i64,
}

/// A list of the cell's leases that was read to its first lease.
#[derive(Debug, Clone, Copy)]
pub struct LeaseList {
    /// The moment at which it began.
    pub from: i64,
    /// The first lease in it.
    pub oldest: Option<i64>,
    /// The oldest transaction that is running in its snapshot.
    pub running: u64,
    /// It has shown every row that was written by hand before this moment.
    pub shown_until: i64,
    pub now: i64,
}

impl Phase {
    /// Returns whether a query that began at a moment may skip leases below the low-water mark.
    pub fn is_for_query_of(&self, began: i64, now: i64) -> bool {
        let is_older_than_the_query = self.published_at != 0 && self.published_at < began;
        let is_trusted = (now - TRUST_US..=now).contains(&self.complete_until);
        is_older_than_the_query && is_trusted
    }

    /// Records that a list from the beginning has shown everything up to a moment. A stored moment in the future is
    /// from before the clock was set back.
    fn trust(&mut self, until: i64, now: i64) {
        self.complete_until = if self.complete_until > now { until } else { self.complete_until.max(until) };
    }
}

impl<M: Mark> Marks<'_, M> {
    /// Lowers the marks for a lease whose row is in the table and whose transaction is still open.
    pub fn begun(&self, moment: i64) {
        // `learn` relies on this order.
        self.low.lower(moment);
        self.low_water.lower(moment);
    }

    /// Updates the marks from a list. `next_transaction` returns the id that the next transaction gets.
    pub fn learn(&self, phase: &mut Phase, list: &LeaseList, next_transaction: impl FnOnce() -> u64) {
        let seen = list.oldest.unwrap_or(list.now);
        if phase.since != 0 && list.running < phase.since {
            if list.from == BEGINNING && phase.published_at != 0 {
                // The low-water mark does not rise, and falls to a row that was written by hand.
                self.low_water.lower(seen);
                phase.trust(list.shown_until, list.now);
            }
            return;
        }
        if phase.since != 0 {
            self.low_water.write(seen.min(self.low.read()));
            // A begin that lowers `low` after the read above may have lowered the low-water mark before the write. So
            // read `low` again. A begin that lowers `low` later lowers the low-water mark by itself.
            self.low_water.lower(self.low.read());
            phase.published_at = list.now;
            if list.from == BEGINNING {
                phase.trust(list.shown_until, list.now);
            }
        }
        // A begin that lowers `low` before this write has a transaction id below `since`, so the next phase waits for
        // its end.
        self.low.write(i64::MAX);
        phase.since = next_transaction();
    }
}
