//! Statements on transfers that work for local and distributed tables.

use std::collections::HashSet;
use std::thread::LocalKey;

use claims_model::cursor::{ClaimCursor, Cursor};
use claims_model::transfer::{Scope, Seal, Subjects, TransferState};
use uuid::Uuid;

use crate::tables::door::Tables;
use crate::tables::rows::transfers::{OpenWriters, Transfer, writers};
use crate::tables::shared::lease_details::LeaseDetails;
use pg::clock::Moment;
use pg::lock;
use pg::spi::{Connection, Value, View};
use pg::statement::{Statement, shared_statement, statement};
use pg::uuid::{from_pg_uuid, pg_uuid, pg_uuids};

shared_statement! {
    /// Inserts a transfer. ON CONFLICT covers both of its keys; the wait for another transaction's key is limited by the lock
    /// timeout.
    INSERT(UUIDOID, INT8OID, INT8OID, INT8OID, BYTEAOID, TEXTOID, TEXTOID) =
        "INSERT INTO claims.cell_transfers (transfer_uuid, from_cell, to_cell, cell_id, state, subjects, request_digest, reason, role)
         VALUES ($1, $2, $3, $2, 'preparing', $4, $5, $6, $7::name) ON CONFLICT DO NOTHING";
    SUBJECTS(UUIDOID, INT4ARRAYOID, TEXTARRAYOID) =
        "INSERT INTO claims.transfer_subjects (transfer_uuid, subject_type, subject_id)
         SELECT $1, s.type, s.id FROM unnest($2, $3) AS s (type, id)";
    /// Records the progress of marking, at $6.
    MARKED(UUIDOID, TEXTOID, INT8OID, INT8OID, TEXTOID, TIMESTAMPTZOID, TEXTOID) =
        "UPDATE claims.cell_transfers SET state = $2, held = held + $3, skipped = $4, marking_after = $5, releasing_after = NULL,
                updated_at = $6, sealed_by = $7, prepared_at = CASE $2 WHEN 'prepared' THEN $6 ELSE prepared_at END
          WHERE transfer_uuid = $1";
    /// Records the progress of releasing, at $6: $3 claims, of which $4 count as moved.
    RELEASED(UUIDOID, TEXTOID, INT8OID, INT8OID, TEXTOID, TIMESTAMPTZOID) =
        "UPDATE claims.cell_transfers SET state = $2, held = held - $3, moved = moved + $4, releasing_after = $5, marking_after = NULL,
                updated_at = $6, sealed_by = NULL, ended_at = CASE WHEN $2 IN ('finished', 'cancelled') THEN $6 END
          WHERE transfer_uuid = $1";
    /// Switches a transfer. After its COMMIT every read returns the new cell.
    SWITCH(UUIDOID, TIMESTAMPTZOID) =
        "UPDATE claims.cell_transfers SET cell_id = to_cell, state = 'switched', updated_at = $2, switched_at = $2 WHERE transfer_uuid = $1";
    REVERSE(UUIDOID, TIMESTAMPTZOID) =
        "UPDATE claims.cell_transfers SET cell_id = from_cell, state = 'prepared', updated_at = $2, reversed_at = $2 WHERE transfer_uuid = $1";
    /// Returns the transfer that moves all claims of cell $1, if there is one.
    OF_WHOLE_CELL(INT8OID) =
        "SELECT t.transfer_uuid FROM claims.cell_transfers t
          WHERE t.from_cell = $1 AND t.subjects IS NULL AND t.ended_at IS NULL ORDER BY t.created_at LIMIT 1";
    /// Returns a transfer that moves all claims of any cell.
    OF_ANY_WHOLE_CELL() =
        "SELECT t.transfer_uuid, t.from_cell FROM claims.cell_transfers t
          WHERE t.subjects IS NULL AND t.ended_at IS NULL ORDER BY t.created_at LIMIT 1";
    /// Returns the oldest transfer that brings claims to cell $1.
    TO_CELL(INT8OID) =
        "SELECT t.transfer_uuid FROM claims.cell_transfers t
          WHERE t.to_cell = $1 AND t.ended_at IS NULL ORDER BY t.created_at LIMIT 1";
    WRITERS() = writers!();
    AMONG(UUIDARRAYOID) = "SELECT t.transfer_uuid FROM claims.cell_transfers t WHERE t.transfer_uuid = ANY ($1)";
    DETAILS(UUIDOID) =
        "SELECT t.from_cell, t.to_cell, t.created_at FROM claims.cell_transfers t WHERE t.transfer_uuid = $1 AND t.ended_at IS NULL";
}

statement! {
    /// Deletes up to $2 subjects of transfers that ended at $1 or earlier.
    PURGE_SUBJECTS(TIMESTAMPTZOID, INT8OID) =
        "WITH old AS MATERIALIZED (
             SELECT s.transfer_uuid, s.subject_type, s.subject_id
               FROM claims.cell_transfers t JOIN claims.transfer_subjects s ON s.transfer_uuid = t.transfer_uuid
              WHERE t.ended_at <= $1 LIMIT $2 FOR UPDATE OF s SKIP LOCKED)
         DELETE FROM claims.transfer_subjects s USING old o
          WHERE (s.transfer_uuid, s.subject_type, s.subject_id) = (o.transfer_uuid, o.subject_type, o.subject_id)";
}

/// Deletes at most `limit` subjects of transfers that ended at `before` or earlier. Returns their number.
pub fn purge_subjects(connection: &Connection, before: Moment, limit: i64) -> usize {
    connection.run(&PURGE_SUBJECTS, View::Statement, [before.into(), limit.into()]).count()
}

/// A transfer that somebody has asked for.
pub struct NewTransfer {
    pub uuid: Uuid,
    pub from_cell: i64,
    pub to_cell: i64,
    pub scope: Scope,
    pub digest: [u8; 32],
    pub reason: String,
    pub role: String,
}

impl dyn Tables + '_ {
    /// Inserts a transfer. Returns `false` if it exists by now.
    pub fn insert_transfer(&self, connection: &Connection, new: &NewTransfer) -> bool {
        let values: [Value; 7] = [
            pg_uuid(new.uuid).into(),
            new.from_cell.into(),
            new.to_cell.into(),
            new.scope.subjects().map(|subjects| subjects.len() as i64).into(),
            new.digest.as_slice().into(),
            new.reason.as_str().into(),
            new.role.as_str().into(),
        ];
        if self.write(connection, &INSERT, values) == 0 {
            return false;
        }
        let (types, ids): (Vec<i32>, Vec<&str>) = new.scope.subjects().into_iter().flat_map(Subjects::iter).unzip();
        self.write(connection, &SUBJECTS, [pg_uuid(new.uuid).into(), types.into(), ids.into()]);
        true
    }

    /// Records how far a pass that marks claims has come, and the seal under which it runs.
    pub fn record_marked(
        &self,
        connection: &Connection,
        transfer: &Transfer,
        progress: &TransferProgress,
        sealed_by: Option<&Seal>,
    ) {
        let values = progress_values(transfer, progress).into_iter().chain([sealed_by.map(Seal::as_str).into()]);
        self.write(connection, &MARKED, values);
    }

    /// Records how far a pass that releases claims has come.
    pub fn record_released(&self, connection: &Connection, transfer: &Transfer, progress: &TransferProgress) {
        self.write(connection, &RELEASED, progress_values(transfer, progress));
    }

    /// Has every read return the new cell for the claims of a transfer.
    pub fn switch_transfer(&self, connection: &Connection, transfer: &Transfer) {
        self.write(connection, &SWITCH, [pg_uuid(transfer.uuid).into(), Moment::now().into()]);
    }

    /// Has every read return the old cell again.
    pub fn reverse_transfer(&self, connection: &Connection, transfer: &Transfer) {
        self.write(connection, &REVERSE, [pg_uuid(transfer.uuid).into(), Moment::now().into()]);
    }

    /// Runs a statement that writes to the tables of transfers. Returns the number of rows.
    fn write(
        &self,
        connection: &Connection,
        statement: &'static LocalKey<Statement>,
        values: impl IntoIterator<Item = Value>,
    ) -> usize {
        let (mut written, mut values) = (0, Some(values));
        self.write_transfers(&mut || {
            written = values.take().map_or(0, |values| connection.run(statement, View::Statement, values).count());
        });
        written
    }
}

/// The progress of a transfer after some steps.
pub struct TransferProgress<'p> {
    pub state: TransferState,
    /// Number of claims that were marked, or released.
    pub changed: i64,
    /// While marking, the number of claims that were skipped; while releasing, the number of those that count as moved.
    pub other: i64,
    pub after: Option<&'p ClaimCursor>,
}

fn progress_values(transfer: &Transfer, progress: &TransferProgress) -> [Value; 6] {
    [
        pg_uuid(transfer.uuid).into(),
        progress.state.name().into(),
        progress.changed.into(),
        progress.other.into(),
        progress.after.map(ClaimCursor::encode).into(),
        Moment::now().into(),
    ]
}

/// Returns the transfer that moves all claims of a cell, if there is one. Call it with [writes_announced] for a change that such a
/// transfer must not miss.
pub fn of_whole_cell(connection: &Connection, cell_id: i64) -> Option<Uuid> {
    connection.run(&OF_WHOLE_CELL, View::Latest, [cell_id.into()]).first(|row| from_pg_uuid(row.must(1)))
}

/// Returns a transfer that moves all claims of a cell, and the cell. Call it with [writes_announced] for a change that such a
/// transfer must not miss.
pub fn of_any_whole_cell(connection: &Connection) -> Option<(Uuid, i64)> {
    connection.run(&OF_ANY_WHOLE_CELL, View::Latest, []).first(|row| (from_pg_uuid(row.must(1)), row.must(2)))
}

/// Returns the oldest transfer that brings claims to a cell.
pub fn to_cell(connection: &Connection, cell_id: i64) -> Option<Uuid> {
    connection.run(&TO_CELL, View::Latest, [cell_id.into()]).first(|row| from_pg_uuid(row.must(1)))
}

/// Takes the lock on the table of claims that every writer has, without waiting. A transfer of a whole cell lists the holders of the lock
/// after it was committed: a writer that finds no transfer under the lock is listed. Returns `false` if another session has locked the
/// table.
pub fn writes_announced() -> bool {
    lock::for_writing(&[c"claims"])
}

/// Returns the transactions of other sessions on this node that have changed claims or modes.
pub fn open_writers_here(connection: &Connection) -> OpenWriters {
    let mut found = OpenWriters::default();
    let rows = connection.run(&WRITERS, View::Latest, []);
    for (name, changes_modes, is_own) in
        rows.map(|row| (row.must::<String>(1), row.must::<bool>(2), row.must::<bool>(3)))
    {
        if is_own {
            found.own_modes |= changes_modes;
        } else {
            found.change_modes |= changes_modes;
            found.transactions.insert(name);
        }
    }
    found
}

/// Returns those of the uuids that belong to transfers.
pub fn among(connection: &Connection, uuids: &[Uuid]) -> HashSet<Uuid> {
    let rows = connection.run(&AMONG, View::Latest, [pg_uuids(uuids.iter().copied())]);
    rows.map(|row| from_pg_uuid(row.must(1))).into_iter().collect()
}

/// Returns an unfinished transfer in the form of a lease without names, and the cell that it goes to.
pub fn as_lease(connection: &Connection, uuid: Uuid, view: View) -> Option<(LeaseDetails, i64)> {
    connection.run(&DETAILS, view, [pg_uuid(uuid).into()]).first(|row| {
        let details = LeaseDetails {
            cell_id: row.must(1),
            created_at: row.must(3),
            cell_xid: None,
            creates: "[]".into(),
            destroys: "[]".into(),
        };
        (details, row.must(2))
    })
}
