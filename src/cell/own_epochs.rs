//! Statements on `claims.own_epochs`, the epochs by which the services recognize this database.

use claims_model::epoch::StoredEpoch;

use pg::clock::Moment;
use pg::query::{query, record};
use pg::spi::Connection;
use pg::table;

record! {
    struct EpochRow {
        is_own: bool,
        epoch: i64,
        predecessor: Option<i64>,
    }
}

query! {
    /// Returns the epochs of a cell: that of the service first, then the newest.
    fn rows(cell_id: i64, service: &str) -> Vec<EpochRow> = [Latest]
        "SELECT e.service = :service AS is_own, e.epoch, e.predecessor FROM claims.own_epochs e
          WHERE e.cell_id = :cell_id ORDER BY e.service <> :service, e.made_at DESC";
    /// Replaces an epoch of a service, unless another pass has replaced it first.
    fn replace(cell_id: i64, service: &str, epoch: i64, predecessor: Option<i64>, before: Option<i64>) = [LatestToWrite]
        "INSERT INTO claims.own_epochs AS e (cell_id, service, epoch, predecessor) VALUES (:cell_id, :service, :epoch, :predecessor)
         ON CONFLICT (cell_id, service) DO UPDATE
         SET epoch = excluded.epoch, predecessor = excluded.predecessor, made_at = excluded.made_at
          WHERE e.epoch = :before";
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
    let mut epochs = CellEpochs::default();
    for EpochRow { is_own, epoch, predecessor } in rows(connection, cell_id, service) {
        let stored = StoredEpoch { epoch, predecessor };
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
    replace(connection, cell_id, service, new.epoch, new.predecessor, before);
}
