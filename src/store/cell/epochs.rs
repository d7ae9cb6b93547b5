//! Statements on `claims.own_epochs`, the epochs by which the services recognize this database.

use claims_model::epoch::StoredEpoch;

use pg::clock::Moment;
use pg::spi::{Connection, View};
use pg::statement::statement;
use pg::table;

statement! {
    /// Returns the epochs of cell $1: that of service $2 first, then the newest.
    STORED(INT8OID, TEXTOID) =
        "SELECT e.service = $2, e.epoch, e.predecessor FROM claims.own_epochs e WHERE e.cell_id = $1 ORDER BY e.service <> $2, e.made_at DESC";
    /// Replaces epoch $5 of service $2 by $3, unless another pass has replaced it first.
    FOLLOW(INT8OID, TEXTOID, INT8OID, INT8OID, INT8OID) =
        "INSERT INTO claims.own_epochs AS e (cell_id, service, epoch, predecessor) VALUES ($1, $2, $3, $4)
         ON CONFLICT (cell_id, service) DO UPDATE
         SET epoch = excluded.epoch, predecessor = excluded.predecessor, made_at = excluded.made_at
          WHERE e.epoch = $5";
}

/// The epochs of a cell at the services that it calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CellEpochs {
    /// The epoch at the service in question.
    pub own: Option<StoredEpoch>,
    /// The epochs at other foreign servers, the newest first. Two of them may lead to one service, or one was renamed.
    pub others: Vec<StoredEpoch>,
}

impl CellEpochs {
    /// Returns the epochs to present, the likeliest first. Without any the service follows nobody yet.
    pub fn candidates(&self) -> Vec<Option<StoredEpoch>> {
        let all: Vec<_> = self.own.iter().chain(&self.others).copied().map(Some).collect();
        if all.is_empty() { vec![None] } else { all }
    }
}

/// Returns the epochs of a cell that are committed now.
pub fn stored(connection: &Connection, cell_id: i64, service: &str) -> CellEpochs {
    let rows = connection.run(&STORED, View::Latest, [cell_id.into(), service.into()]);
    let mut epochs = CellEpochs::default();
    for (is_own, stored) in rows.map(|row| (row.must(1), StoredEpoch { epoch: row.must(2), predecessor: row.get(3) })) {
        if is_own { epochs.own = Some(stored) } else { epochs.others.push(stored) }
    }
    epochs
}

/// Like [`stored`], without a statement: every save reads it. The table has a row for each cell and service of this database, usually one.
pub fn committed(cell_id: i64, service: &str) -> CellEpochs {
    let rows = table::rows(c"own_epochs", |row| {
        let cell: i64 = row.must(c"cell_id");
        let stored = StoredEpoch { epoch: row.must(c"epoch"), predecessor: row.get(c"predecessor") };
        let made_at: Moment = row.must(c"made_at");
        let is_own = cell == cell_id && row.must::<String>(c"service") == service;
        (cell, is_own, made_at, stored)
    });
    let mut epochs = CellEpochs::default();
    let mut others: Vec<(Moment, StoredEpoch)> = Vec::new();
    for (_, is_own, made_at, stored) in rows.into_iter().flatten().filter(|(cell, ..)| *cell == cell_id) {
        if is_own { epochs.own = Some(stored) } else { others.push((made_at, stored)) }
    }
    others.sort_by_key(|(made_at, _)| std::cmp::Reverse(made_at.0));
    epochs.others = others.into_iter().map(|(_, stored)| stored).collect();
    epochs
}

/// Replaces the epoch `before` by a new one. Run it in a transaction of its own.
pub fn follow(connection: &Connection, cell_id: i64, service: &str, new: StoredEpoch, before: Option<i64>) {
    let StoredEpoch { epoch, predecessor } = new;
    let values = [cell_id.into(), service.into(), epoch.into(), predecessor.into(), before.into()];
    connection.run(&FOLLOW, View::LatestToWrite, values);
}
