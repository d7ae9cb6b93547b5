//! Statements on transfers, and on the claims that they hold.

use claims_model::cursor::ClaimCursor;
use pgrx::Uuid as PgUuid;
use uuid::Uuid;

use super::door::Local;
use super::feed::tell_all;
use crate::error::ClaimsError;
use crate::tables::door::TransferTables;
use crate::tables::rows::feed::actor;
use crate::tables::rows::known_or_raised;
use crate::tables::rows::transfers::{OpenWriters, STEP, Transfer, TransferStep, locked, locked_columns, step_values};
use crate::tables::shared::transfers;
use pg::clock::Moment;
use pg::index::{self, KeyPart, KeyValue, Unusable};
use pg::spi::{self, Connection, Row, Value, View};
use pg::statement::statement;
use pg::uuid::pg_uuid;

/// The next claims of cell $2 after the claim ($3, $4, $5, $6), at most $7, in the order of the index by source. `is_held` tells
/// whether transfer $1 holds one. It reads whole sources and then sorts them completely, so whatever the statistics say, no more
/// rows are sorted.
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

/// Returns how many claims a step has read, wanted and changed, and the last one that it has read.
macro_rules! step_result {
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

/// Marks those claims of a page that `$which` selects, if they are ACTIVE and `$still` holds for their newest version.
macro_rules! mark {
    ($which:literal, $still:literal) => {
        concat!(
            "WITH ",
            page!(),
            ",
              wanted AS MATERIALIZED (
                  SELECT p.bucket_type, p.bucket_value, p.subject_type, p.subject_id FROM page p WHERE NOT p.is_held",
            $which,
            "),
              free AS MATERIALIZED (
                  SELECT c.bucket_value, c.bucket_type FROM wanted w JOIN claims.claims c ON ",
            is_row!("c.bucket_value", "c.bucket_type", "w.bucket_value", "w.bucket_type"),
            "          WHERE c.status = 1 AND c.creator_id IS NOT DISTINCT FROM $2",
            $still,
            "            FOR UPDATE OF c SKIP LOCKED),
              marked AS (
                  UPDATE claims.claims c SET status = 4, lease_uuid = $1, updated_at = $8 FROM free f WHERE ",
            is_row!("c.bucket_value", "c.bucket_type", "f.bucket_value", "f.bucket_type"),
            "         RETURNING 1) ",
            step_result!("wanted", "marked")
        )
    };
}

statement! {
    /// Locks the cells of a new transfer, so that they cannot be removed before the transfer is in its table.
    LOCK_CELLS(INT8OID, INT8OID) =
        "SELECT c.cell_id FROM claims.cells c WHERE c.cell_id = $1 OR c.cell_id = $2 ORDER BY c.cell_id FOR KEY SHARE NOWAIT";
    LOCK(UUIDOID) = concat!("SELECT ", locked_columns!(), " FROM claims.cell_transfers t WHERE t.transfer_uuid = $1 FOR UPDATE NOWAIT");
    /// Marks those claims of a page that are ACTIVE and belong to the transfer's subjects. Skips those that another transaction
    /// has locked.
    MARK(UUIDOID, INT8OID, INT4OID, TEXTOID, INT4OID, TEXTOID, INT8OID, TIMESTAMPTZOID) = mark!(
        " AND EXISTS (SELECT FROM claims.transfer_subjects s
                       WHERE s.transfer_uuid = $1 AND s.subject_type = p.subject_type AND s.subject_id = p.subject_id)",
        " AND c.subject_type = w.subject_type AND c.subject_id = w.subject_id");
    /// Like [MARK], for all ACTIVE claims of a page.
    MARK_ALL(UUIDOID, INT8OID, INT4OID, TEXTOID, INT4OID, TEXTOID, INT8OID, TIMESTAMPTZOID) = mark!("", "");
    /// Makes those claims of a page that the transfer holds ACTIVE claims of cell $9. `released` are the claims that one step
    /// changes.
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
        step_result!("wanted", "released"));
    /// Records that all claims that transfer $1 holds have moved from cell $3 to cell $4, as role $5. Reads all claims of cell
    /// $2.
    TELL_MOVED(UUIDOID, INT8OID, INT8OID, INT8OID, TEXTOID) = concat!(
        "WITH held AS MATERIALIZED (
             SELECT c.bucket_type, c.bucket_value FROM claims.claims c
              WHERE c.creator_id = $2 AND c.status = 4 AND c.lease_uuid = $1) ",
        tell_all!("held", "'transfer'", "$3", "$4", "$1", "$5"));
    CELL(UUIDOID) = "SELECT t.cell_id FROM claims.cell_transfers t WHERE t.transfer_uuid = $1";
}

/// The unique index on transfers, for messages.
const INDEX: &str = "claims.cell_transfers (transfer_uuid)";

impl TransferTables for Local {
    fn lock_transfer(&self, connection: &Connection, uuid: Uuid) -> Option<Transfer> {
        connection.run(&LOCK, View::Statement, [pg_uuid(uuid).into()]).first(|row| locked(uuid, &row))
    }

    fn lock_cells(&self, connection: &Connection, [from_cell, to_cell]: [i64; 2]) -> usize {
        connection.run(&LOCK_CELLS, View::Statement, [from_cell.into(), to_cell.into()]).count()
    }

    fn mark_held(&self, connection: &Connection, transfer: &Transfer, after: Option<&ClaimCursor>) -> TransferStep {
        let values = step_values(transfer, after).into_iter().chain([Moment::now().into()]);
        let mark = if transfer.is_whole { &MARK_ALL } else { &MARK };
        connection.run(mark, View::Statement, values).first(step).unwrap_or(NOTHING)
    }

    fn release_held(&self, connection: &Connection, transfer: &Transfer, after: Option<&ClaimCursor>) -> TransferStep {
        let values = step_values(transfer, after).into_iter().chain([Moment::now().into(), transfer.cell_id.into()]);
        connection.run(&RELEASE, View::Statement, values).first(step).unwrap_or(NOTHING)
    }

    fn tell_moved(&self, connection: &Connection, transfer: &Transfer, from: i64, to: i64) {
        let values: [Value; 5] =
            [pg_uuid(transfer.uuid).into(), transfer.from_cell.into(), from.into(), to.into(), actor().into()];
        connection.run(&TELL_MOVED, View::Statement, values);
    }

    fn write_transfers(&self, write: &mut dyn FnMut()) {
        write();
    }

    fn open_writers(&self, connection: &Connection, _: i64) -> Result<OpenWriters, ClaimsError> {
        Ok(transfers::open_writers_here(connection))
    }
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

/// Returns the cell that the claims of a transfer are at, in the snapshot of the calling query. Runs no statement, like the
/// lookup of the claim.
pub fn cell_of(transfer: PgUuid) -> Option<i64> {
    let key = [KeyPart { column: c"transfer_uuid", value: KeyValue::Uuid(transfer) }];
    match index::find(c"cell_transfers", &key, |row| row.must(c"cell_id")) {
        // The index is newer than this query's snapshot. The planner has other plans.
        Err(Unusable::TooNew) => spi::connect_as_owner(|connection| {
            connection.run(&CELL, View::Caller, [transfer.into()]).first(|row| row.must(1))
        }),
        found => known_or_raised(found, INDEX),
    }
}
