//! From which moment on a cell can have outstanding leases, as processes tell each other of it without waiting: two marks, which
//! begins lower, and which lists of leases raise.
//!
//! Why no lease is missed. A list that was read to its first lease from a floor, or from the beginning, knows the oldest lease
//! that its snapshot shows. What that does not show is dead for ever, or of a transaction that was running then, or has begun since. Each
//! begin lowers `low`, and then `floor`, to its lease's moment, once its row is in the table and so has a transaction id. `low` is set
//! anew where a phase begins, `since` is the next transaction id after that, and only a snapshot which sees that every transaction
//! before `since` has ended ends the phase. So all rows that it does not show, and that can still come, have lowered `low` in this
//! phase or will lower `floor` later: `floor` becomes the lower one of what was seen and `low`. No clock is trusted: a lease that is dated
//! back lowers as every other one does. Transactions that are prepared are running, and after a restart, a crash or a promotion nothing is
//! known, so that two lists must come first.
//!
//! A snapshot that is older than a floor may show leases below it, all of which have been settled since: it does not use the floor, as
//! far as clocks tell, so that a list is what its snapshot shows. Rows that are written by hand, or by a restore into these tables, lower
//! nothing: hence a list is read from its beginning every few minutes.

use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

/// How long a floor is used without a look below it, in microseconds.
pub const TRUST: i64 = 5 * 60 * 1_000_000;

/// Before every moment.
const BEGINNING: i64 = i64::MIN;

/// A moment that many processes read and change, each change in one step.
pub trait Mark {
    fn read(&self) -> i64;
    fn write(&self, moment: i64);
    /// Makes it no later than this.
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

/// The marks of a cell.
pub struct Marks<'m, M> {
    /// The earliest lease that was begun in this phase.
    pub low: &'m M,
    /// No lease is outstanding that is earlier, once a floor was published.
    pub floor: &'m M,
}

/// What goes with them. Whoever changes it has it for itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Phase {
    /// The next transaction id when the phase began; 0: there has been none.
    pub since: u64,
    /// When the floor was published, and up to when a list from the beginning has shown everything; 0: never.
    pub published_at: i64,
    pub looked_at: i64,
}

/// A list of the cell's leases that was read to its first one.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// Where it began.
    pub from: i64,
    /// The first lease that it showed.
    pub oldest: Option<i64>,
    /// The oldest transaction that its snapshot takes for running.
    pub running: u64,
    /// What was written by hand before this moment it has shown, too.
    pub shown_until: i64,
    pub now: i64,
}

impl Phase {
    /// Whether a query that began at a moment may leave out what is below the floor.
    pub fn is_for_query_of(&self, began: i64, now: i64) -> bool {
        let is_older_than_the_query = self.published_at != 0 && self.published_at < began;
        let is_trusted = (now - TRUST..=now).contains(&self.looked_at);
        is_older_than_the_query && is_trusted
    }

    /// A list from the beginning has shown everything up to a moment. One that is ahead of the clock was before it went back.
    fn trust(&mut self, until: i64, now: i64) {
        self.looked_at = if self.looked_at > now { until } else { self.looked_at.max(until) };
    }
}

impl<M: Mark> Marks<'_, M> {
    /// The row of a lease is in the table, and its transaction is still open.
    pub fn begun(&self, moment: i64) {
        // In this order: see `looked`.
        self.low.lower(moment);
        self.floor.lower(moment);
    }

    /// Learns from a list. `next_transaction` says which id the next transaction gets.
    pub fn looked(&self, phase: &mut Phase, look: &Look, next_transaction: impl FnOnce() -> u64) {
        let seen = look.oldest.unwrap_or(look.now);
        if phase.since != 0 && look.running < phase.since {
            if look.from == BEGINNING && phase.published_at != 0 {
                // The floor stays as it is, but for what was written by hand.
                self.floor.lower(seen);
                phase.trust(look.shown_until, look.now);
            }
            return;
        }
        if phase.since != 0 {
            self.floor.write(seen.min(self.low.read()));
            // A begin that has lowered `low` after that look at it may have lowered the floor before it was stored. One that lowers
            // `low` only now lowers the floor afterwards by itself.
            self.floor.lower(self.low.read());
            phase.published_at = look.now;
            if look.from == BEGINNING {
                phase.trust(look.shown_until, look.now);
            }
        }
        // What lowers `low` before this is of a transaction before `since`, and so is waited for.
        self.low.write(i64::MAX);
        phase.since = next_transaction();
    }
}
