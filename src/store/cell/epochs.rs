//! Statements on `claims.own_epochs`, the epochs by which the service recognizes this database.

use claims_model::epoch::StoredEpoch;

use crate::pg::spi::{Connection, View};
use crate::pg::statement::statement;
use crate::pg::table;

statement! {
    STORED(INT8OID) = "SELECT e.epoch, e.predecessor FROM claims.own_epochs e WHERE e.cell_id = $1";
    /// Replaces epoch $3 by $2, unless another pass has replaced it first.
    FOLLOW(INT8OID, INT8OID, INT8OID) =
        "INSERT INTO claims.own_epochs AS e (cell_id, epoch, predecessor) VALUES ($1, $2, $3)
         ON CONFLICT (cell_id) DO UPDATE
         SET epoch = excluded.epoch, predecessor = excluded.predecessor, made_at = excluded.made_at
          WHERE e.epoch = excluded.predecessor";
}

/// Returns the epoch of a cell that is committed now.
pub fn stored(connection: &Connection, cell_id: i64) -> Option<StoredEpoch> {
    connection
        .run(&STORED, View::Latest, [cell_id.into()])
        .first(|row| StoredEpoch { epoch: row.must(1), predecessor: row.get(2) })
}

/// Like [`stored`], without a statement: every save reads it. The table has a row for each cell of this database, usually one.
pub fn committed(cell_id: i64) -> Option<StoredEpoch> {
    let rows = table::rows(c"own_epochs", |row| {
        let cell: i64 = row.must(c"cell_id");
        (cell, StoredEpoch { epoch: row.must(c"epoch"), predecessor: row.get(c"predecessor") })
    });
    rows.into_iter().flatten().find(|(cell, _)| *cell == cell_id).map(|(_, stored)| stored)
}

/// Replaces the predecessor by the new epoch. Run it in a transaction of its own.
pub fn follow(connection: &Connection, cell_id: i64, new: StoredEpoch) {
    let StoredEpoch { epoch, predecessor } = new;
    connection.run(&FOLLOW, View::LatestToWrite, [cell_id.into(), epoch.into(), predecessor.into()]);
}
