//! A low-water mark per cell: no outstanding lease was created before it. Without the mark a list of a cell's leases reads past the index
//! entries of all leases that were settled while somebody held a snapshot: after 200,000 of them it takes 62 ms instead of 2. With the mark it
//! takes 0.1 ms, also after 900,000 (bench/RESULTS.md). The marks are in shared memory; without preloading lists are read from their beginning.
//! `claims_model::low_water` has the rules, and why no lease is missed.

use std::sync::atomic::{AtomicI64, AtomicU64};

use claims_model::low_water::{self, LeaseList, Mark, Marks};
use zerocopy::FromBytes;

use crate::kernel::call::Call;
use crate::kernel::cell_slots::{self, CellSlot, MAX_CELLS};
use pg::background::own_database;
use pg::clock::Moment;
use pg::shared::{Locked, Shared};
use pg::{table, xact};

#[derive(FromBytes)]
pub struct LowWaterMark {
    owner: AtomicU64,
    earliest: AtomicI64,
    low_water: AtomicI64,
}

impl CellSlot for LowWaterMark {
    fn owner(&self) -> &AtomicU64 {
        &self.owner
    }
}

impl LowWaterMark {
    fn marks(&self) -> Marks<'_, AtomicI64> {
        Marks { low: &self.earliest, low_water: &self.low_water }
    }
}

/// The state of a mark that is not atomic, in the slot of the same index.
#[derive(Clone, Copy, FromBytes)]
pub struct CellPhase {
    /// The database and the cell that own it. Slots are found by a hash: if two cells share one, only one of them has a mark.
    database: u32,
    cell_id: i64,
    /// The table of leases. DROP and CREATE EXTENSION make a new one.
    table: u32,
    since: u64,
    published_at: i64,
    complete_until: i64,
}

impl CellPhase {
    fn of(cell_id: i64) -> Self {
        let (database, table) = (own_database(), table::number(c"claim_leases").map_or(0, |table| table.to_u32()));
        CellPhase { database, cell_id, table, since: 0, published_at: 0, complete_until: 0 }
    }

    fn is_of_cell(&self, other: &CellPhase) -> bool {
        (self.database, self.cell_id) == (other.database, other.cell_id)
    }

    fn is_of(&self, other: &CellPhase) -> bool {
        self.is_of_cell(other) && self.table == other.table
    }

    fn times(&self) -> low_water::Phase {
        low_water::Phase { since: self.since, published_at: self.published_at, complete_until: self.complete_until }
    }

    fn set(&mut self, times: low_water::Phase) {
        let low_water::Phase { since, published_at, complete_until } = times;
        *self = CellPhase { since, published_at, complete_until, ..*self };
    }
}

pub static MARKS: Shared<[LowWaterMark; MAX_CELLS]> = Shared::new(c"claims low-water marks");
pub static PHASES: Locked<[CellPhase; MAX_CELLS]> = Locked::new(c"claims phases");

fn of_cell(call: &Call, cell_id: i64) -> Option<(&'static LowWaterMark, usize)> {
    // If the tables are distributed, leases are begun on nodes that do not share this memory.
    if !call.tables.shares_memory() {
        return None;
    }
    let marks = MARKS.get()?;
    cell_slots::own_number(marks, cell_id).map(|number| (&marks[number], number))
}

/// Lowers the mark to a lease. The lease's row is in the table, and its transaction is still open.
pub fn begun(call: &Call, cell_id: i64, made_at: Moment) {
    if let Some((mark, _)) = of_cell(call, cell_id) {
        mark.marks().begun(made_at.0);
    }
}

/// Returns the time before which the calling query can see no outstanding leases of a cell.
pub fn of_caller(call: &Call, cell_id: i64) -> Moment {
    let Some((mark, slot)) = of_cell(call, cell_id) else { return Moment::MIN };
    let (false, Some(began)) = (xact::uses_transaction_snapshot(), xact::query_began()) else { return Moment::MIN };
    let (own, now) = (CellPhase::of(cell_id), Moment::now().0);
    let read = PHASES.read(|phases| {
        let phase = &phases[slot];
        let is_usable = phase.is_of(&own) && phase.times().is_for_query_of(began.0, now);
        is_usable.then(|| mark.low_water.read())
    });
    read.flatten().map_or(Moment::MIN, Moment)
}

/// Returns the mark of a cell for any caller. `None` if none was published.
pub fn published(call: &Call, cell_id: i64) -> Option<Moment> {
    let (mark, slot) = of_cell(call, cell_id)?;
    let own = CellPhase::of(cell_id);
    let is_published = |phases: &[CellPhase; MAX_CELLS]| phases[slot].is_of(&own) && phases[slot].published_at != 0;
    let read = PHASES.read(|phases| is_published(phases).then(|| Moment(mark.low_water.read())));
    read.flatten()
}

/// Records that the calling query has read the list from `from`, a result of [of_caller], and that `oldest` was the first lease
/// in it.
pub fn listed(call: &Call, cell_id: i64, from: Moment, oldest: Option<Moment>) {
    let Some((mark, slot)) = of_cell(call, cell_id).filter(|_| xact::counts_transactions()) else { return };
    let (Some(running), Some(began)) = (xact::oldest_running(), xact::query_began()) else { return };
    // Rows that were written by hand before this time are visible to the snapshot.
    let shown_until = if xact::uses_transaction_snapshot() { Moment::MIN } else { began }.0;
    let (own, now) = (CellPhase::of(cell_id), Moment::now().0);
    let list = LeaseList { from: from.0, oldest: oldest.map(|oldest| oldest.0), running, shown_until, now };
    PHASES.write(|phases| {
        let phase = &mut phases[slot];
        if phase.database != 0 && !phase.is_of_cell(&own) {
            return;
        }
        if !phase.is_of(&own) {
            *phase = own;
        }
        let mut times = phase.times();
        mark.marks().learn(&mut times, &list, || xact::next_xid().0);
        phase.set(times);
    });
}
