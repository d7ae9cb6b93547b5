//! The service's statements on the epochs of cells, which every save reads.

use claims_model::epoch::{Acting, Epoch};
use claims_model::place::Place;

use super::tables::{ActingPlace, EpochTables};
use crate::kernel::direct::layouts::{EPOCHS, epoch};
use crate::kernel::tables::Local;
use pg::clock::Moment;
use pg::direct::{self, Reading};
use pg::index::KeyValue;
use pg::query::{Record, query, record};
use pg::spi::{Connection, Row};
use pg::{spi, xact};

record! {
    struct ActingRow {
        epoch: Epoch,
        place: Option<i64>,
        lineage: Option<i64>,
        timeline: Option<i32>,
        acted_at: Moment,
        address: Option<String>,
    }
}

macro_rules! acting {
    ($lock:literal) => {
        concat!(
            "SELECT e.epoch, e.place, e.lineage, e.timeline, coalesce(e.acted_at, e.presented_at) AS acted_at, e.address
               FROM claims.cell_epochs e WHERE e.cell_id = :cell_id",
            $lock
        )
    };
}

query! {
    /// Makes the row of a cell that has none, for an epoch that is stored afterwards.
    fn make(cell_id: i64, epoch: Epoch) -> bool = [Statement Anywhere]
        "INSERT INTO claims.cell_epochs AS e (cell_id, epoch) VALUES (:cell_id, :epoch) ON CONFLICT (cell_id) DO NOTHING";
    fn lock_row(cell_id: i64) -> Option<StoredActing> = [Statement Anywhere] acting!(" FOR UPDATE");
    /// Returns the acting database of a cell.
    pub fn read(cell_id: i64) -> Option<StoredActing> = [Latest Anywhere] acting!("");
    fn store_row(cell_id: i64, epoch: Epoch, place: Option<i64>, lineage: Option<i64>, timeline: Option<i32>, address: Option<&str>)
        = [Statement Anywhere]
        "INSERT INTO claims.cell_epochs AS e (cell_id, epoch, place, lineage, timeline, address, acted_at)
         VALUES (:cell_id, :epoch, :place, :lineage, :timeline, :address, clock_timestamp())
         ON CONFLICT (cell_id) DO UPDATE
         SET epoch = excluded.epoch, presented_at = excluded.presented_at, place = excluded.place, lineage = excluded.lineage,
             timeline = excluded.timeline, address = excluded.address, acted_at = excluded.acted_at";
    /// Stores an epoch, and keeps the place of the acting database.
    pub fn confirm(cell_id: i64, epoch: Epoch) = [Statement Anywhere]
        "UPDATE claims.cell_epochs e SET epoch = :epoch WHERE e.cell_id = :cell_id AND e.epoch <> :epoch";
    /// Notes that the database at a place acts, unless another session notes the same at this moment.
    pub fn note(cell_id: i64, place: i64) = [Statement Anywhere]
        "UPDATE claims.cell_epochs e SET acted_at = clock_timestamp()
          WHERE e.cell_id = (SELECT l.cell_id FROM claims.cell_epochs l
                              WHERE l.cell_id = :cell_id AND l.place = :place FOR NO KEY UPDATE SKIP LOCKED)";
    /// Returns whether the service has stored this epoch.
    pub fn has(cell_id: i64, epoch: Epoch) -> bool = [Latest Anywhere]
        "SELECT FROM claims.cell_epochs e WHERE e.cell_id = :cell_id AND e.epoch = :epoch";
}

/// The database that acts for a cell, as the service has stored it.
pub struct StoredActing {
    pub acting: Acting,
    pub acted_at: Moment,
    /// The machine and the directory, as the database has told them.
    pub address: Option<String>,
}

impl Record for StoredActing {
    fn read(row: &Row) -> Self {
        let row = ActingRow::read(row);
        let place = match (row.place, row.lineage, row.timeline) {
            (Some(id), Some(lineage), Some(timeline)) => Some(Place { id, lineage, timeline }),
            _ => None,
        };
        StoredActing { acting: Acting { epoch: row.epoch, place }, acted_at: row.acted_at, address: row.address }
    }
}

/// Returns and locks the acting database of a cell, after it has waited for another presentation. `None`: the cell has none, and `epoch` is
/// stored in a new row.
pub fn lock(connection: &Connection, cell_id: i64, epoch: Epoch) -> Option<StoredActing> {
    if make(connection, cell_id, epoch) { None } else { lock_row(connection, cell_id) }
}

/// Stores the epoch and the place of the database that acts from now on.
pub fn store(connection: &Connection, cell_id: i64, epoch: Epoch, place: Option<Place>, address: Option<&str>) {
    let (id, lineage) = (place.map(|place| place.id), place.map(|place| place.lineage));
    store_row(connection, cell_id, epoch, id, lineage, place.map(|place| place.timeline), address);
}

impl EpochTables for Local {
    fn acting(&self, cell_id: i64) -> Option<ActingPlace> {
        let find = |[table]: [&direct::Table; 1]| {
            table.look_up(Reading::Latest, |rows| {
                let row = rows.find([KeyValue::Int8(cell_id)], |_| true)?;
                Some(ActingPlace {
                    epoch: row.get(epoch::EPOCH)?,
                    place: row.get(epoch::PLACE),
                    acted_at: row.get(epoch::ACTED_AT),
                })
            })
        };
        // The lock ends with the look-up: the begin that follows in the same statement may wait for names (`claims.lease_wait`), and holds
        // nothing then. A statement reads the table whatever was added to it.
        direct::read([&EPOCHS], find).unwrap_or_else(|| {
            let stored = spi::connect_as_owner(|connection| read(connection, cell_id))?;
            let place = stored.acting.place.map(|place| place.id);
            Some(ActingPlace { epoch: stored.acting.epoch, place, acted_at: Some(stored.acted_at) })
        })
    }

    fn note_act(&self, cell_id: i64, place: i64) {
        // With an older snapshot the row may be one that another session has changed since, which is an error.
        if !xact::uses_transaction_snapshot() {
            spi::connect_as_owner(|connection| note(connection, cell_id, place));
        }
    }
}
