//! Statements on transfers, and on the claims that they hold.

use std::collections::HashSet;
use std::thread::LocalKey;

use claims_model::cursor::{ClaimCursor, Cursor};
use claims_model::transfer::{Subjects, TransferState};
use pgrx::Uuid as PgUuid;
use uuid::Uuid;

use super::changes::{actor, tell_all};
use super::distributed::transfers as distributed;
use super::known_or_raised;
use super::lease_details::LeaseDetails;
use super::transfer_rows::{STEP, locked, locked_columns, step_values};
pub use super::transfer_rows::{Transfer, TransferStep};
use crate::distribution;
use crate::pg::clock::Moment;
use crate::pg::index::{self, KeyPart, KeyValue, Unusable};
use crate::pg::spi::{self, Connection, Row, Value, View};
use crate::pg::statement::{Statement, shared_statement, statement};
use crate::pg::uuid::{from_pg_uuid, pg_uuid, pg_uuids};

/// The next claims of cell $2 behind a claim ($3, $4, $5, $6), up to $7, in the order of the index by source. `is_held`: by
/// transfer $1. Whole sources are read, and then put into the whole order: whatever the statistics say, no more is sorted.
macro_rules! page {
    () => {
        "page AS MATERIALIZED (
             SELECT c.source_type, c.source_id, c.bucket_type, c.bucket_value, c.subject_type, c.subject_id,
                    c.status = 4 AND c.lease_uuid IS NOT DISTINCT FROM $1 AS is_held
               FROM (SELECT * FROM claims.claims c
                      WHERE c.creator_id = $2
                        AND (c.source_type, length(c.source_id), c.source_id) >= ($3, length($4), $4)
                        AND ((c.source_type, length(c.source_id), c.source_id) > ($3, length($4), $4)
                             OR (c.bucket_type, c.bucket_value) > ($5, $6))
                      ORDER BY c.source_type, length(c.source_id), c.source_id FETCH FIRST ($7) ROWS WITH TIES) c
              ORDER BY c.source_type, length(c.source_id), c.source_id, c.bucket_type, c.bucket_value
              LIMIT $7)"
    };
}

/// How many claims a step has seen, wanted and changed, and the last one that it has seen.
macro_rules! told {
    ($wanted:literal, $changed:literal) => {
        concat!(
            "SELECT (SELECT count(*) FROM page), (SELECT count(*) FROM ", $wanted, "), (SELECT count(*) FROM ", $changed, "),
                    l.source_type, l.source_id, l.bucket_type, l.bucket_value
               FROM (SELECT 1) one
               LEFT JOIN (SELECT * FROM page p
                           ORDER BY p.source_type DESC, length(p.source_id) DESC, p.source_id DESC, p.bucket_type DESC, p.bucket_value DESC
                           LIMIT 1) l ON true"
        )
    };
}

shared_statement! {
    /// Of the two keys a transfer has one: nobody waits for another one's longer than the limit.
    INSERT(UUIDOID, INT8OID, INT8OID, INT8OID, BYTEAOID, TEXTOID, TEXTOID) =
        "INSERT INTO claims.cell_transfers (transfer_uuid, from_cell, to_cell, cell_id, state, subjects, request_digest, reason, role)
         VALUES ($1, $2, $3, $2, 'preparing', $4, $5, $6, $7::name) ON CONFLICT DO NOTHING";
    SUBJECTS(UUIDOID, INT4ARRAYOID, TEXTARRAYOID) =
        "INSERT INTO claims.transfer_subjects (transfer_uuid, subject_type, subject_id)
         SELECT $1, s.type, s.id FROM unnest($2, $3) AS s (type, id)";
    /// What a pass of marking has come to, at $6.
    MARKED(UUIDOID, TEXTOID, INT8OID, INT8OID, TEXTOID, TIMESTAMPTZOID) =
        "UPDATE claims.cell_transfers SET state = $2, held = held + $3, skipped = $4, marking_after = $5, releasing_after = NULL,
                updated_at = $6, prepared_at = CASE $2 WHEN 'prepared' THEN $6 ELSE prepared_at END
          WHERE transfer_uuid = $1";
    /// What releasing has come to, at $6: $3 claims, of which $4 count as moved.
    RELEASED(UUIDOID, TEXTOID, INT8OID, INT8OID, TEXTOID, TIMESTAMPTZOID) =
        "UPDATE claims.cell_transfers SET state = $2, held = held - $3, moved = moved + $4, releasing_after = $5, marking_after = NULL,
                updated_at = $6, ended_at = CASE WHEN $2 IN ('finished', 'cancelled') THEN $6 END
          WHERE transfer_uuid = $1";
    /// From its COMMIT on every read says the new cell.
    SWITCH(UUIDOID, TIMESTAMPTZOID) =
        "UPDATE claims.cell_transfers SET cell_id = to_cell, state = 'switched', updated_at = $2, switched_at = $2 WHERE transfer_uuid = $1";
    REVERSE(UUIDOID, TIMESTAMPTZOID) =
        "UPDATE claims.cell_transfers SET cell_id = from_cell, state = 'prepared', updated_at = $2, reversed_at = $2 WHERE transfer_uuid = $1";
    AMONG(UUIDARRAYOID) = "SELECT t.transfer_uuid FROM claims.cell_transfers t WHERE t.transfer_uuid = ANY ($1)";
    DETAILS(UUIDOID) =
        "SELECT t.from_cell, t.to_cell, t.created_at FROM claims.cell_transfers t WHERE t.transfer_uuid = $1 AND t.ended_at IS NULL";
}

statement! {
    /// The cells that a transfer is to be between, so that nobody removes them before it stands in its table.
    LOCK_CELLS(INT8OID, INT8OID) =
        "SELECT c.cell_id FROM claims.cells c WHERE c.cell_id = $1 OR c.cell_id = $2 ORDER BY c.cell_id FOR KEY SHARE NOWAIT";
    LOCK(UUIDOID) = concat!("SELECT ", locked_columns!(), " FROM claims.cell_transfers t WHERE t.transfer_uuid = $1 FOR UPDATE NOWAIT");
    /// Marks those claims of a page that are ACTIVE and of the transfer's subjects, passing over those that another transaction
    /// has locked.
    MARK(UUIDOID, INT8OID, INT4OID, TEXTOID, INT4OID, TEXTOID, INT8OID, TIMESTAMPTZOID) = concat!(
        "WITH ", page!(), ",
              wanted AS MATERIALIZED (
                  SELECT p.bucket_type, p.bucket_value, p.subject_type, p.subject_id FROM page p
                   WHERE NOT p.is_held
                     AND EXISTS (SELECT FROM claims.transfer_subjects s
                                  WHERE s.transfer_uuid = $1 AND s.subject_type = p.subject_type AND s.subject_id = p.subject_id)),
              free AS MATERIALIZED (
                  SELECT c.bucket_value, c.bucket_type FROM wanted w JOIN claims.claims c ON ",
        is_row!("c.bucket_value", "c.bucket_type", "w.bucket_value", "w.bucket_type"),
        "          WHERE c.status = 1 AND c.creator_id IS NOT DISTINCT FROM $2
                     AND c.subject_type = w.subject_type AND c.subject_id = w.subject_id
                     FOR UPDATE OF c SKIP LOCKED),
              marked AS (
                  UPDATE claims.claims c SET status = 4, lease_uuid = $1, updated_at = $8 FROM free f WHERE ",
        is_row!("c.bucket_value", "c.bucket_type", "f.bucket_value", "f.bucket_type"),
        "         RETURNING 1) ",
        told!("wanted", "marked"));
    /// Makes those claims of a page that the transfer holds ACTIVE claims of cell $9. `released` is the set of what one step
    /// moves.
    RELEASE(UUIDOID, INT8OID, INT4OID, TEXTOID, INT4OID, TEXTOID, INT8OID, TIMESTAMPTZOID, INT8OID) = concat!(
        "WITH ", page!(), ",
              wanted AS MATERIALIZED (SELECT p.bucket_type, p.bucket_value FROM page p WHERE p.is_held),
              free AS MATERIALIZED (
                  SELECT c.bucket_value, c.bucket_type FROM wanted w JOIN claims.claims c ON ",
        is_row!("c.bucket_value", "c.bucket_type", "w.bucket_value", "w.bucket_type"),
        "          WHERE c.status = 4 AND c.lease_uuid IS NOT DISTINCT FROM $1
                     FOR UPDATE OF c SKIP LOCKED),
              released AS (
                  UPDATE claims.claims c SET creator_id = $9, status = 1, lease_uuid = NULL, updated_at = $8 FROM free f WHERE ",
        is_row!("c.bucket_value", "c.bucket_type", "f.bucket_value", "f.bucket_type"),
        "         RETURNING c.bucket_type, c.bucket_value) ",
        told!("wanted", "released"));
    /// Writes down that all claims that transfer $1 holds have gone from cell $3 to cell $4, as role $5. Reads all claims of cell $2.
    TELL_MOVED(UUIDOID, INT8OID, INT8OID, INT8OID, TEXTOID) = concat!(
        "WITH held AS MATERIALIZED (
             SELECT c.bucket_type, c.bucket_value FROM claims.claims c
              WHERE c.creator_id = $2 AND c.status = 4 AND c.lease_uuid = $1) ",
        tell_all!("held", "'transfer'", "$3", "$4", "$1", "$5"));
    CELL(UUIDOID) = "SELECT t.cell_id FROM claims.cell_transfers t WHERE t.transfer_uuid = $1";
}

/// The unique index on transfers, as messages call it.
const INDEX: &str = "claims.cell_transfers (transfer_uuid)";

/// Locks the row of a transfer until the transaction ends, and does not wait for it. `None`: there is none.
pub fn lock(connection: &Connection, uuid: Uuid) -> Option<Transfer> {
    if distribution::is_spread() {
        return distributed::lock(connection, uuid);
    }
    connection.run(&LOCK, View::Statement, [pg_uuid(uuid).into()]).first(|row| locked(uuid, &row))
}

/// A transfer that is about to be.
pub struct NewTransfer<'t> {
    pub uuid: Uuid,
    pub from_cell: i64,
    pub to_cell: i64,
    pub subjects: &'t Subjects,
    pub digest: [u8; 32],
    pub reason: &'t str,
    pub role: &'t str,
}

/// Locks the rows of the cells and returns how many there are; does not wait for them.
pub fn lock_cells(connection: &Connection, from_cell: i64, to_cell: i64) -> usize {
    if distribution::is_spread() {
        return distributed::lock_cells(connection, [from_cell, to_cell]);
    }
    connection.run(&LOCK_CELLS, View::Statement, [from_cell.into(), to_cell.into()]).count()
}

/// Adds a transfer. `false`: by now it is there.
pub fn insert(connection: &Connection, new: &NewTransfer) -> bool {
    let values: [Value; 7] = [
        pg_uuid(new.uuid).into(),
        new.from_cell.into(),
        new.to_cell.into(),
        (new.subjects.len() as i64).into(),
        new.digest.as_slice().into(),
        new.reason.into(),
        new.role.into(),
    ];
    if write(connection, &INSERT, values) == 0 {
        return false;
    }
    let (types, ids): (Vec<i32>, Vec<&str>) = new.subjects.iter().unzip();
    write(connection, &SUBJECTS, [pg_uuid(new.uuid).into(), types.into(), ids.into()]);
    true
}

/// Executes a statement that writes the tables of transfers; on how many rows.
fn write(
    connection: &Connection,
    statement: &'static LocalKey<Statement>,
    values: impl IntoIterator<Item = Value>,
) -> usize {
    let write = || connection.run(statement, View::Statement, values).count();
    if distribution::is_spread() { distributed::writing(write) } else { write() }
}

fn step(row: Row) -> TransferStep {
    let is_full = row.must::<i64>(1) == STEP;
    let after = |source_type| ClaimCursor {
        source_type,
        source_id: row.must(5),
        bucket_type: row.must(6),
        bucket_value: row.must(7),
    };
    TransferStep { wanted: row.must(2), changed: row.must(3), after: row.get(4).filter(|_| is_full).map(after) }
}

const NOTHING: TransferStep = TransferStep { wanted: 0, changed: 0, after: None };

/// One step of marking the claims of the transfer's subjects. Waits for no other transaction.
pub fn mark(connection: &Connection, transfer: &Transfer, after: Option<&ClaimCursor>) -> TransferStep {
    if distribution::is_spread() {
        return distributed::mark(connection, transfer, after);
    }
    let values = step_values(transfer, after).into_iter().chain([Moment::now().into()]);
    connection.run(&MARK, View::Statement, values).first(step).unwrap_or(NOTHING)
}

/// One step of making the claims that the transfer holds ACTIVE, where they are.
pub fn release(connection: &Connection, transfer: &Transfer, after: Option<&ClaimCursor>) -> TransferStep {
    if distribution::is_spread() {
        return distributed::release(connection, transfer, after);
    }
    let values = step_values(transfer, after).into_iter().chain([Moment::now().into(), transfer.cell_id.into()]);
    connection.run(&RELEASE, View::Statement, values).first(step).unwrap_or(NOTHING)
}

/// What is written of a transfer after some steps.
pub struct TransferProgress<'p> {
    pub state: TransferState,
    /// Claims that were marked, or released.
    pub changed: i64,
    /// Marking: claims that could not be had; releasing: those that count as moved.
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

pub fn record_marked(connection: &Connection, transfer: &Transfer, progress: &TransferProgress) {
    write(connection, &MARKED, progress_values(transfer, progress));
}

pub fn record_released(connection: &Connection, transfer: &Transfer, progress: &TransferProgress) {
    write(connection, &RELEASED, progress_values(transfer, progress));
}

pub fn switch(connection: &Connection, transfer: &Transfer) {
    write(connection, &SWITCH, [pg_uuid(transfer.uuid).into(), Moment::now().into()]);
}

pub fn reverse(connection: &Connection, transfer: &Transfer) {
    write(connection, &REVERSE, [pg_uuid(transfer.uuid).into(), Moment::now().into()]);
}

/// Writes into the change feed that all claims of a transfer are now in the other cell than before.
pub fn tell_moved(connection: &Connection, transfer: &Transfer, from: i64, to: i64) {
    let values: [Value; 5] =
        [pg_uuid(transfer.uuid).into(), transfer.from_cell.into(), from.into(), to.into(), actor().into()];
    connection.run(&TELL_MOVED, View::Statement, values);
}

/// Where the claims of a transfer are, in the snapshot of the calling query. Without a statement, as the claim was looked up.
pub fn cell_of(transfer: PgUuid) -> Option<i64> {
    let key = [KeyPart { column: c"transfer_uuid", value: KeyValue::Uuid(transfer) }];
    match index::find(c"cell_transfers", &key, |row| row.must(c"cell_id")) {
        // The planner knows other ways than an index that was made behind this query's back.
        Err(Unusable::TooNew) => {
            spi::connect(|connection| connection.run(&CELL, View::Caller, [transfer.into()]).first(|row| row.must(1)))
        }
        found => known_or_raised(found, INDEX),
    }
}

/// Which of the uuids are transfers'.
pub fn among(connection: &Connection, uuids: &[Uuid]) -> HashSet<Uuid> {
    let rows = connection.run(&AMONG, View::Latest, [pg_uuids(uuids.iter().copied())]);
    rows.map(|row| from_pg_uuid(row.must(1))).into_iter().collect()
}

/// A transfer that has not ended, told as a lease without names, and the cell that it goes to.
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
