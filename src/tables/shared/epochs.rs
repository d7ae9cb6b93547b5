//! The service's statements on the epochs of cells.

use claims_model::epoch::{Epoch, StoredEpoch};

use crate::pg::clock::Moment;
use crate::pg::spi::{Connection, View};
use crate::pg::statement::shared_statement;

shared_statement! {
    /// Stores epoch $2 of cell $1, if the cell has that epoch, or $3, or none.
    TAKE(INT8OID, INT8OID, INT8OID) =
        "INSERT INTO claims.cell_epochs AS e (cell_id, epoch) VALUES ($1, $2)
         ON CONFLICT (cell_id) DO UPDATE SET epoch = excluded.epoch, presented_at = excluded.presented_at
          WHERE e.epoch IN ($2, $3)";
    /// Stores an epoch unconditionally.
    ADOPT(INT8OID, INT8OID) =
        "INSERT INTO claims.cell_epochs AS e (cell_id, epoch) VALUES ($1, $2)
         ON CONFLICT (cell_id) DO UPDATE SET epoch = excluded.epoch, presented_at = excluded.presented_at";
    EPOCH(INT8OID) = "SELECT e.epoch FROM claims.cell_epochs e WHERE e.cell_id = $1";
    HAS(INT8OID, INT8OID) = "SELECT 1 FROM claims.cell_epochs e WHERE e.cell_id = $1 AND e.epoch = $2";
    LAST(INT8OID) = "SELECT e.presented_at FROM claims.cell_epochs e WHERE e.cell_id = $1";
}

/// Stores a presented epoch. Returns `false` if another database has presented one that is neither this nor its predecessor.
/// Waits for another presentation of the same cell.
pub fn take(connection: &Connection, cell_id: i64, presented: StoredEpoch) -> bool {
    let StoredEpoch { epoch, predecessor } = presented;
    connection.run(&TAKE, View::Statement, [cell_id.into(), epoch.into(), predecessor.into()]).count() == 1
}

pub fn adopt(connection: &Connection, cell_id: i64, epoch: Epoch) {
    connection.run(&ADOPT, View::Statement, [cell_id.into(), epoch.into()]);
}

/// Returns the stored epoch.
pub fn epoch(connection: &Connection, cell_id: i64) -> Option<Epoch> {
    connection.run(&EPOCH, View::Latest, [cell_id.into()]).first(|row| row.must(1))
}

/// Returns whether the service has stored this epoch.
pub fn has(connection: &Connection, cell_id: i64, epoch: Epoch) -> bool {
    connection.run(&HAS, View::Latest, [cell_id.into(), epoch.into()]).count() > 0
}

/// Returns when the stored epoch was last presented.
pub fn presented_at(connection: &Connection, cell_id: i64) -> Option<Moment> {
    connection.run(&LAST, View::Latest, [cell_id.into()]).first(|row| row.must(1))
}
