//! The service's statements on the epochs of cells.

use claims_model::epoch::{Acting, Epoch};
use claims_model::place::Place;

use pg::clock::Moment;
use pg::spi::{Connection, Row, View};
use pg::statement::shared_statement;

shared_statement! {
    /// Makes the row of a cell that has none, for an epoch that is stored afterwards.
    MAKE(INT8OID, INT8OID) = "INSERT INTO claims.cell_epochs AS e (cell_id, epoch) VALUES ($1, $2) ON CONFLICT (cell_id) DO NOTHING";
    LOCK(INT8OID) =
        "SELECT e.epoch, e.place, e.lineage, e.timeline, coalesce(e.acted_at, e.presented_at), e.address
           FROM claims.cell_epochs e WHERE e.cell_id = $1 FOR UPDATE";
    READ(INT8OID) =
        "SELECT e.epoch, e.place, e.lineage, e.timeline, coalesce(e.acted_at, e.presented_at), e.address
           FROM claims.cell_epochs e WHERE e.cell_id = $1";
    /// Stores an epoch and the place of its database.
    STORE(INT8OID, INT8OID, INT8OID, INT8OID, INT4OID, TEXTOID) =
        "INSERT INTO claims.cell_epochs AS e (cell_id, epoch, place, lineage, timeline, address, acted_at)
         VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp())
         ON CONFLICT (cell_id) DO UPDATE
         SET epoch = excluded.epoch, presented_at = excluded.presented_at, place = excluded.place, lineage = excluded.lineage,
             timeline = excluded.timeline, address = excluded.address, acted_at = excluded.acted_at";
    /// Stores an epoch, and keeps the place of the acting database.
    CONFIRM(INT8OID, INT8OID) = "UPDATE claims.cell_epochs e SET epoch = $2 WHERE e.cell_id = $1 AND e.epoch <> $2";
    /// Notes that the database at place $2 acts, unless another session notes the same at this moment.
    NOTE(INT8OID, INT8OID) =
        "UPDATE claims.cell_epochs e SET acted_at = clock_timestamp()
          WHERE e.cell_id = (SELECT l.cell_id FROM claims.cell_epochs l WHERE l.cell_id = $1 AND l.place = $2 FOR NO KEY UPDATE SKIP LOCKED)";
    HAS(INT8OID, INT8OID) = "SELECT 1 FROM claims.cell_epochs e WHERE e.cell_id = $1 AND e.epoch = $2";
}

/// The database that acts for a cell, as the service has stored it.
pub struct StoredActing {
    pub acting: Acting,
    pub acted_at: Moment,
    /// The machine and the directory, as the database has told them.
    pub address: Option<String>,
}

/// Returns and locks the acting database of a cell, after it has waited for another presentation. `None`: the cell has none, and `epoch` is
/// stored in a new row.
pub fn lock(connection: &Connection, cell_id: i64, epoch: Epoch) -> Option<StoredActing> {
    let is_new = connection.run(&MAKE, View::Statement, [cell_id.into(), epoch.into()]).count() == 1;
    if is_new { None } else { connection.run(&LOCK, View::Statement, [cell_id.into()]).first(stored_acting) }
}

/// Returns the acting database of a cell.
pub fn read(connection: &Connection, cell_id: i64) -> Option<StoredActing> {
    connection.run(&READ, View::Latest, [cell_id.into()]).first(stored_acting)
}

fn stored_acting(row: Row) -> StoredActing {
    let place = match (row.get(2), row.get(3), row.get(4)) {
        (Some(id), Some(lineage), Some(timeline)) => Some(Place { id, lineage, timeline }),
        _ => None,
    };
    StoredActing { acting: Acting { epoch: row.must(1), place }, acted_at: row.must(5), address: row.get(6) }
}

/// Stores the epoch and the place of the database that acts from now on.
pub fn store(connection: &Connection, cell_id: i64, epoch: Epoch, place: Option<Place>, address: Option<&str>) {
    let (id, lineage) = (place.map(|place| place.id), place.map(|place| place.lineage));
    let timeline = place.map(|place| place.timeline);
    let values = [cell_id.into(), epoch.into(), id.into(), lineage.into(), timeline.into(), address.into()];
    connection.run(&STORE, View::Statement, values);
}

/// Stores an epoch, and keeps the acting database.
pub fn confirm(connection: &Connection, cell_id: i64, epoch: Epoch) {
    connection.run(&CONFIRM, View::Statement, [cell_id.into(), epoch.into()]);
}

/// Notes that the database at a place acts. Waits for nobody.
pub fn note(connection: &Connection, cell_id: i64, place: i64) {
    connection.run(&NOTE, View::Statement, [cell_id.into(), place.into()]);
}

/// Returns whether the service has stored this epoch.
pub fn has(connection: &Connection, cell_id: i64, epoch: Epoch) -> bool {
    connection.run(&HAS, View::Latest, [cell_id.into(), epoch.into()]).count() > 0
}
