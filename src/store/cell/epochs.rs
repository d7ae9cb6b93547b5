//! Statements on the epochs by which the service knows this database.

use claims_model::epoch::KeptEpoch;

use crate::pg::spi::{Connection, View};
use crate::pg::statement::statement;

statement! {
    KEPT(INT8OID) = "SELECT e.epoch, e.predecessor FROM claims.own_epochs e WHERE e.cell_id = $1";
    /// Puts epoch $2 in the place of $3, unless another pass was faster.
    FOLLOW(INT8OID, INT8OID, INT8OID) =
        "INSERT INTO claims.own_epochs AS e (cell_id, epoch, predecessor) VALUES ($1, $2, $3)
         ON CONFLICT (cell_id) DO UPDATE
         SET epoch = excluded.epoch, predecessor = excluded.predecessor, made_at = excluded.made_at
          WHERE e.epoch = excluded.predecessor";
}

/// What is committed right now.
pub fn kept(connection: &Connection, cell_id: i64) -> Option<KeptEpoch> {
    connection
        .run(&KEPT, View::Latest, [cell_id.into()])
        .first(|row| KeptEpoch { epoch: row.must(1), predecessor: row.get(2) })
}

/// Puts a new one in the place of its predecessor. For a transaction of its own.
pub fn follow(connection: &Connection, cell_id: i64, new: KeptEpoch) {
    let KeptEpoch { epoch, predecessor } = new;
    connection.run(&FOLLOW, View::LatestToWrite, [cell_id.into(), epoch.into(), predecessor.into()]);
}
