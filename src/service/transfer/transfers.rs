//! Statements on transfers that work for local and distributed tables.

use std::collections::HashSet;

use claims_model::transfer::{Scope, Seal, Subjects, TransferState};
use uuid::Uuid;

use super::tables::{OpenWriters, PassPosition, Transfer, TransferTables};
use pg::clock::Moment;
use pg::lock;
use pg::query::{query, record};
use pg::spi::Connection;

/// Selects the transactions that have locked claims, leases or modes for writing: their names, whether they change modes, and
/// whether it is this session's. On distributed tables also those that write to shards.
pub const WRITERS: &str =
    "SELECT l.virtualtransaction AS name, bool_or(r.relname LIKE 'mode%') AS changes_modes,
                bool_or(l.pid IS NOT DISTINCT FROM pg_catalog.pg_backend_pid()) AS is_own
           FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_class r ON r.oid = l.relation
          WHERE l.locktype = 'relation' AND l.granted
            AND l.mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
            AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
            AND r.relnamespace = 'claims'::regnamespace AND r.relname ~ '^(claims|claim_leases|mode_settings)(_[0-9]+)?$'
          GROUP BY 1";

record! {
    struct WriterRow { name: String, changes_modes: bool, is_own: bool }

    struct WholeCellRow { transfer_uuid: Uuid, from_cell: i64 }
}

query! {
    /// Inserts a transfer. ON CONFLICT covers both of its keys; the wait for another transaction's key is limited by the lock
    /// timeout.
    fn insert(uuid: Uuid, from_cell: i64, to_cell: i64, subjects: Option<i64>, request_digest: &[u8], reason: &str, role: &str) -> bool
        = [Statement Anywhere]
        "INSERT INTO claims.cell_transfers (transfer_uuid, from_cell, to_cell, cell_id, state, subjects, request_digest, reason, role)
         VALUES (:uuid, :from_cell, :to_cell, :from_cell, 'preparing', :subjects, :request_digest, :reason, :role::name) ON CONFLICT DO NOTHING";
    fn insert_subjects(uuid: Uuid, types: &[i32], ids: &[&str]) = [Statement Anywhere]
        "INSERT INTO claims.transfer_subjects (transfer_uuid, subject_type, subject_id)
         SELECT :uuid, s.type, s.id FROM unnest(:types, :ids) AS s (type, id)";
    fn marked(uuid: Uuid, state: &str, marked: i64, skipped: i64, after: Option<String>, at: Moment, sealed_by: Option<&str>)
        = [Statement Anywhere]
        "UPDATE claims.cell_transfers SET state = :state, held = held + :marked, skipped = :skipped, marking_after = :after,
                releasing_after = NULL, updated_at = :at, sealed_by = :sealed_by,
                prepared_at = CASE :state WHEN 'prepared' THEN :at ELSE prepared_at END
          WHERE transfer_uuid = :uuid";
    fn released(uuid: Uuid, state: &str, released: i64, moved: i64, after: Option<String>, at: Moment) = [Statement Anywhere]
        "UPDATE claims.cell_transfers SET state = :state, held = held - :released, moved = moved + :moved, releasing_after = :after,
                marking_after = NULL, updated_at = :at, sealed_by = NULL,
                ended_at = CASE WHEN :state IN ('finished', 'cancelled') THEN :at END
          WHERE transfer_uuid = :uuid";
    /// Switches a transfer. After its COMMIT every read returns the new cell.
    fn switch(uuid: Uuid, at: Moment) = [Statement Anywhere]
        "UPDATE claims.cell_transfers SET cell_id = to_cell, state = 'switched', updated_at = :at, switched_at = :at
          WHERE transfer_uuid = :uuid";
    fn reverse(uuid: Uuid, at: Moment) = [Statement Anywhere]
        "UPDATE claims.cell_transfers SET cell_id = from_cell, state = 'prepared', updated_at = :at, reversed_at = :at
          WHERE transfer_uuid = :uuid";
    /// Returns the transfer that moves all claims of a cell, if there is one. Call it with [`writes_announced`] for a change that such a
    /// transfer must not miss.
    pub fn of_whole_cell(cell_id: i64) -> Option<Uuid> = [Latest Anywhere]
        "SELECT t.transfer_uuid FROM claims.cell_transfers t
          WHERE t.from_cell = :cell_id AND t.subjects IS NULL AND t.ended_at IS NULL ORDER BY t.created_at LIMIT 1";
    fn of_any() -> Option<WholeCellRow> = [Latest Anywhere]
        "SELECT t.transfer_uuid, t.from_cell FROM claims.cell_transfers t
          WHERE t.subjects IS NULL AND t.ended_at IS NULL ORDER BY t.created_at LIMIT 1";
    /// Returns the oldest transfer that brings claims to a cell.
    pub fn to_cell(cell_id: i64) -> Option<Uuid> = [Latest Anywhere]
        "SELECT t.transfer_uuid FROM claims.cell_transfers t
          WHERE t.to_cell = :cell_id AND t.ended_at IS NULL ORDER BY t.created_at LIMIT 1";
    fn writers() -> Vec<WriterRow> = [Latest Anywhere] WRITERS;
    fn existing_among(uuids: &[Uuid]) -> Vec<Uuid> = [Latest Anywhere]
        "SELECT t.transfer_uuid FROM claims.cell_transfers t WHERE t.transfer_uuid = ANY (:uuids)";
    /// Deletes at most `most` subjects of transfers that ended at `before` or earlier. Returns their number.
    pub fn purge_subjects(before: Moment, most: i64) -> usize = [Statement]
        "WITH old AS MATERIALIZED (
             SELECT s.transfer_uuid, s.subject_type, s.subject_id
               FROM claims.cell_transfers t JOIN claims.transfer_subjects s ON s.transfer_uuid = t.transfer_uuid
              WHERE t.ended_at <= :before LIMIT :most FOR UPDATE OF s SKIP LOCKED)
         DELETE FROM claims.transfer_subjects s USING old o
          WHERE (s.transfer_uuid, s.subject_type, s.subject_id) = (o.transfer_uuid, o.subject_type, o.subject_id)";
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

impl dyn TransferTables + '_ {
    /// Inserts a transfer. Returns `false` if it exists by now.
    pub fn insert_transfer(&self, connection: &Connection, new: &NewTransfer) -> bool {
        let NewTransfer { uuid, from_cell, to_cell, ref scope, ref digest, ref reason, ref role } = *new;
        let subjects = scope.subjects().map(|subjects| subjects.len() as i64);
        let put = || insert(connection, uuid, from_cell, to_cell, subjects, digest.as_slice(), reason, role);
        if self.writing(put) != Some(true) {
            return false;
        }
        let (types, ids): (Vec<i32>, Vec<&str>) = scope.subjects().into_iter().flat_map(Subjects::iter).unzip();
        self.writing(|| insert_subjects(connection, uuid, &types, &ids));
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
        let TransferProgress { state, changed, other, after } = *progress;
        let (after, sealed_by) = (after.map(PassPosition::encode), sealed_by.map(Seal::as_str));
        let at = Moment::now();
        self.writing(|| marked(connection, transfer.uuid, state.name(), changed, other, after, at, sealed_by));
    }

    /// Records how far a pass that releases claims has come.
    pub fn record_released(&self, connection: &Connection, transfer: &Transfer, progress: &TransferProgress) {
        let TransferProgress { state, changed, other, after } = *progress;
        let (after, at) = (after.map(PassPosition::encode), Moment::now());
        self.writing(|| released(connection, transfer.uuid, state.name(), changed, other, after, at));
    }

    /// Has every read return the new cell for the claims of a transfer.
    pub fn switch_transfer(&self, connection: &Connection, transfer: &Transfer) {
        self.writing(|| switch(connection, transfer.uuid, Moment::now()));
    }

    /// Has every read return the old cell again.
    pub fn reverse_transfer(&self, connection: &Connection, transfer: &Transfer) {
        self.writing(|| reverse(connection, transfer.uuid, Moment::now()));
    }

    /// Runs `write`, which writes to the tables of transfers.
    fn writing<T>(&self, write: impl FnOnce() -> T) -> Option<T> {
        let (mut written, mut write) = (None, Some(write));
        self.write_transfers(&mut || written = write.take().map(|write| write()));
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
    pub after: Option<&'p PassPosition>,
}

/// Returns a transfer that moves all claims of a cell, and the cell. Call it with [writes_announced] for a change that such a
/// transfer must not miss.
pub fn of_any_whole_cell(connection: &Connection) -> Option<(Uuid, i64)> {
    of_any(connection).map(|row| (row.transfer_uuid, row.from_cell))
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
    for WriterRow { name, changes_modes, is_own } in writers(connection) {
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
    existing_among(connection, uuids).into_iter().collect()
}
