//! Statements on the epochs of cells, at the service.

use claims_model::epoch::{Epoch, KeptEpoch};

use crate::pg::clock::Moment;
use crate::pg::spi::{Connection, View};
use crate::pg::statement::shared_statement;

shared_statement! {
    /// Takes epoch $2 of cell $1, if it has that one already, or $3, or none.
    TAKE(INT8OID, INT8OID, INT8OID) =
        "INSERT INTO claims.cell_epochs AS e (cell_id, epoch) VALUES ($1, $2)
         ON CONFLICT (cell_id) DO UPDATE SET epoch = excluded.epoch, presented_at = excluded.presented_at
          WHERE e.epoch IN ($2, $3)";
    /// Takes it, whatever it has.
    ADOPT(INT8OID, INT8OID) =
        "INSERT INTO claims.cell_epochs AS e (cell_id, epoch) VALUES ($1, $2)
         ON CONFLICT (cell_id) DO UPDATE SET epoch = excluded.epoch, presented_at = excluded.presented_at";
    LAST(INT8OID) = "SELECT e.presented_at FROM claims.cell_epochs e WHERE e.cell_id = $1";
}

/// `false`: another database has presented one that does not lead to these. Waits for another presentation for the cell.
pub fn take(connection: &Connection, cell_id: i64, presented: KeptEpoch) -> bool {
    let KeptEpoch { epoch, predecessor } = presented;
    connection.run(&TAKE, View::Statement, [cell_id.into(), epoch.into(), predecessor.into()]).count() == 1
}

pub fn adopt(connection: &Connection, cell_id: i64, epoch: Epoch) {
    connection.run(&ADOPT, View::Statement, [cell_id.into(), epoch.into()]);
}

/// When the epoch that the service has was presented last.
pub fn presented_at(connection: &Connection, cell_id: i64) -> Option<Moment> {
    connection.run(&LAST, View::Latest, [cell_id.into()]).first(|row| row.must(1))
}
