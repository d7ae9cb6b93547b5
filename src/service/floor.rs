//! From which moment on a cell can have outstanding leases. Whoever lists them need not read past the rows of all those that were
//! settled before: a snapshot that somebody holds keeps those in the index for hours. In shared memory; without preloading
//! lists are read from their beginning. `claims_model::floor` has the rules, and why no lease is missed.

use std::sync::atomic::{AtomicI64, AtomicU64};

use claims_model::floor::{self, Look, Mark, Marks};

use super::places::{self, CellPlace, MAX_CELLS};
use crate::distribution;
use crate::pg::background::own_database;
use crate::pg::clock::Moment;
use crate::pg::shared::{Locked, Shared, plain, shareable};
use crate::pg::table;
use crate::pg::xact;

shareable! {
    pub struct Floor {
        owner: AtomicU64,
        low: AtomicI64,
        floor: AtomicI64,
    }
}

impl CellPlace for Floor {
    fn owner(&self) -> &AtomicU64 {
        &self.owner
    }
}

impl Floor {
    fn marks(&self) -> Marks<'_, AtomicI64> {
        Marks { low: &self.low, floor: &self.floor }
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
        since: u64,
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

    fn times(&self) -> floor::Phase {
        floor::Phase { since: self.since, published_at: self.published_at, looked_at: self.looked_at }
    }

    fn set(&mut self, times: floor::Phase) {
        let floor::Phase { since, published_at, looked_at } = times;
        *self = Phase { since, published_at, looked_at, ..*self };
    }
}

pub static FLOORS: Shared<[Floor; MAX_CELLS]> = Shared::new(c"claims floors");
pub static PHASES: Locked<[Phase; MAX_CELLS]> = Locked::new(c"claims phases");

fn of_cell(cell_id: i64) -> Option<(&'static Floor, usize)> {
    // Where the tables are spread, leases are begun on nodes that do not share this memory.
    if distribution::is_spread() {
        return None;
    }
    let floors = FLOORS.get()?;
    places::own_number(floors, cell_id).map(|number| (&floors[number], number))
}

/// The row of a lease is in the table, and its transaction is still open.
pub fn begun(cell_id: i64, made_at: Moment) {
    if let Some((floor, _)) = of_cell(cell_id) {
        floor.marks().begun(made_at.0);
    }
}

/// From which moment on the calling query can see outstanding leases of a cell.
pub fn of_caller(cell_id: i64) -> Moment {
    let Some((floor, place)) = of_cell(cell_id) else { return Moment::MIN };
    let (false, Some(began)) = (xact::keeps_one_snapshot(), xact::query_began()) else { return Moment::MIN };
    let (own, now) = (Phase::of(cell_id), Moment::now().0);
    let read = PHASES.read(|phases| {
        let phase = &phases[place];
        let is_usable = phase.is_of(&own) && phase.times().is_for_query_of(began.0, now);
        is_usable.then(|| floor.floor.read())
    });
    read.flatten().map_or(Moment::MIN, Moment)
}

/// The floor of a cell, whoever asks. `None`: nothing is known.
pub fn known(cell_id: i64) -> Option<Moment> {
    let (floor, place) = of_cell(cell_id)?;
    let own = Phase::of(cell_id);
    let is_known = |phases: &[Phase; MAX_CELLS]| phases[place].is_of(&own) && phases[place].published_at != 0;
    let read = PHASES.read(|phases| is_known(phases).then(|| Moment(floor.floor.read())));
    read.flatten()
}

/// The calling query has read the list from `from` on, which `of_caller` said; `oldest` is the first lease that it saw.
pub fn looked(cell_id: i64, from: Moment, oldest: Option<Moment>) {
    let Some((floor, place)) = of_cell(cell_id).filter(|_| xact::counts_transactions()) else { return };
    let (Some(running), Some(began)) = (xact::oldest_running(), xact::query_began()) else { return };
    // How new the snapshot is: from before then it shows what was written by hand.
    let shown_until = if xact::keeps_one_snapshot() { Moment::MIN } else { began }.0;
    let (own, now) = (Phase::of(cell_id), Moment::now().0);
    let look = Look { from: from.0, oldest: oldest.map(|oldest| oldest.0), running, shown_until, now };
    PHASES.write(|phases| {
        let phase = &mut phases[place];
        if phase.database != 0 && !phase.is_of_cell(&own) {
            return;
        }
        if !phase.is_of(&own) {
            *phase = own;
        }
        let mut times = phase.times();
        floor.marks().looked(&mut times, &look, || xact::next_xid().0);
        phase.set(times);
    });
}
