//! From which moment on a cell can have outstanding leases. Whoever lists them need not read past the rows of all those that were
//! settled before: a snapshot that somebody holds keeps those in the index for hours. In shared memory; without preloading
//! lists are read from their beginning.
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

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};

use super::places::{self, CellPlace, MAX_CELLS};
use crate::pg::background::own_database;
use crate::pg::clock::Moment;
use crate::pg::shared::{Locked, Shared, plain, shareable};
use crate::pg::table;
use crate::pg::xact;

/// How long a floor is used without a look below it, in microseconds.
const TRUST: i64 = 5 * 60 * 1_000_000;

shareable! {
    pub struct Floor {
        owner: AtomicU64,
        /// The earliest lease that was begun in this phase.
        low: AtomicI64,
        /// No lease is outstanding that is earlier.
        floor: AtomicI64,
    }
}

impl CellPlace for Floor {
    fn owner(&self) -> &AtomicU64 {
        &self.owner
    }
}

plain! {
    /// What goes with a floor, at the same place.
    pub struct Phase {
        /// Whose it is. Names of places are hashes: two cells may share one, and then only one of them has a floor.
        database: u32,
        cell_id: i64,
        /// The table of leases, which DROP and CREATE EXTENSION make anew.
        table: u32,
        /// The next transaction id when the phase began; 0: there has been none.
        since: u64,
        /// When the floor was published, and up to when a list from the beginning has shown everything; 0: never.
        published_at: i64,
        looked_at: i64,
    }
}

impl Phase {
    fn of(cell_id: i64) -> Self {
        let (database, table) = (own_database(), table::number(c"claim_leases").map_or(0, |table| table.to_u32()));
        Phase { database, cell_id, table, since: 0, published_at: 0, looked_at: 0 }
    }

    fn is_of_cell(&self, other: &Phase) -> bool {
        (self.database, self.cell_id) == (other.database, other.cell_id)
    }

    fn is_of(&self, other: &Phase) -> bool {
        self.is_of_cell(other) && self.table == other.table
    }

    /// A list from the beginning has shown everything up to a moment. One that is ahead of the clock was before it went back.
    fn trust(&mut self, until: i64, now: i64) {
        self.looked_at = if self.looked_at > now { until } else { self.looked_at.max(until) };
    }
}

pub static FLOORS: Shared<[Floor; MAX_CELLS]> = Shared::new(c"claims floors");
pub static PHASES: Locked<[Phase; MAX_CELLS]> = Locked::new(c"claims phases");

fn of_cell(cell_id: i64) -> Option<(&'static Floor, usize)> {
    let floors = FLOORS.get()?;
    places::own_number(floors, cell_id).map(|number| (&floors[number], number))
}

fn lower(to: &AtomicI64, moment: i64) {
    if to.load(SeqCst) > moment {
        to.fetch_min(moment, SeqCst);
    }
}

/// The row of a lease is in the table, and its transaction is still open.
pub fn begun(cell_id: i64, made_at: Moment) {
    if let Some((floor, _)) = of_cell(cell_id) {
        // In this order: see `looked`.
        lower(&floor.low, made_at.0);
        lower(&floor.floor, made_at.0);
    }
}

/// From which moment on the calling query can see outstanding leases of a cell.
pub fn of_caller(cell_id: i64) -> Moment {
    let Some((floor, place)) = of_cell(cell_id) else { return Moment::MIN };
    let (false, Some(began)) = (xact::keeps_one_snapshot(), xact::query_began()) else { return Moment::MIN };
    let (own, now) = (Phase::of(cell_id), Moment::now().0);
    let read = PHASES.read(|phases| {
        let phase = &phases[place];
        let is_older_than_the_query = phase.published_at != 0 && phase.published_at < began.0;
        let is_trusted = (now - TRUST..=now).contains(&phase.looked_at);
        (phase.is_of(&own) && is_older_than_the_query && is_trusted).then(|| floor.floor.load(SeqCst))
    });
    read.flatten().map_or(Moment::MIN, Moment)
}

/// The floor of a cell, whoever asks. `None`: nothing is known.
pub fn known(cell_id: i64) -> Option<Moment> {
    let (floor, place) = of_cell(cell_id)?;
    let own = Phase::of(cell_id);
    let is_known = |phases: &[Phase; MAX_CELLS]| phases[place].is_of(&own) && phases[place].published_at != 0;
    let read = PHASES.read(|phases| is_known(phases).then(|| Moment(floor.floor.load(SeqCst))));
    read.flatten()
}

/// The calling query has read the list from `from` on, which `of_caller` said; `oldest` is the first lease that it saw.
pub fn looked(cell_id: i64, from: Moment, oldest: Option<Moment>) {
    let Some((floor, place)) = of_cell(cell_id).filter(|_| xact::counts_transactions()) else { return };
    let (Some(running), Some(began)) = (xact::oldest_running(), xact::query_began()) else { return };
    // How new the snapshot is: from before then it shows what was written by hand.
    let shown_until = if xact::keeps_one_snapshot() { Moment::MIN } else { began };
    let (own, now) = (Phase::of(cell_id), Moment::now().0);
    PHASES.write(|phases| {
        let phase = &mut phases[place];
        if phase.database != 0 && !phase.is_of_cell(&own) {
            return;
        }
        if !phase.is_of(&own) {
            *phase = own;
        }
        if phase.since != 0 && running < phase.since {
            if from == Moment::MIN && phase.published_at != 0 {
                // The floor stays as it is, but for what was written by hand.
                lower(&floor.floor, oldest.map_or(now, |oldest| oldest.0));
                phase.trust(shown_until.0, now);
            }
            return;
        }
        if phase.since != 0 {
            let seen = oldest.map_or(now, |oldest| oldest.0);
            floor.floor.store(seen.min(floor.low.load(SeqCst)), SeqCst);
            // A begin that has lowered `low` after that look at it may have lowered the floor before it was stored. One that lowers
            // `low` only now lowers the floor afterwards by itself.
            lower(&floor.floor, floor.low.load(SeqCst));
            phase.published_at = now;
            if from == Moment::MIN {
                phase.trust(shown_until.0, now);
            }
        }
        // What lowers `low` before this is of a transaction before `since`, and so is waited for.
        floor.low.store(i64::MAX, SeqCst);
        phase.since = xact::next_xid().0;
    });
}
