//! Statements on verifications that several workers share: the passes, and their ranges that are not verified yet. An expiring
//! claim on a range's number says which worker has the range.

use claims_model::source_range::SourceRange;
use pgrx::Uuid as PgUuid;
use uuid::Uuid;

use pg::spi::{Connection, View};
use pg::statement::statement;
use pg::uuid::{from_pg_uuid, pg_uuid};

statement! {
    OPEN(INT8OID, TEXTOID, BOOLOID) =
        "SELECT p.pass FROM claims.verification_passes p
          WHERE p.cell_id = $1 AND p.source_type = $2 AND p.correct = $3 AND p.finished_at IS NULL";
    BEGIN(UUIDOID, INT8OID, TEXTOID, BOOLOID) =
        "INSERT INTO claims.verification_passes (pass, cell_id, source_type, correct) VALUES ($1, $2, $3, $4)
         ON CONFLICT (cell_id, source_type, correct) WHERE finished_at IS NULL DO NOTHING";
    /// Deletes passes that finished more than a day ago. Until then each of their workers can see the end.
    PURGE() =
        "WITH old AS MATERIALIZED (
             SELECT p.pass FROM claims.verification_passes p
              WHERE p.finished_at < clock_timestamp() - interval '1 day' FOR UPDATE SKIP LOCKED)
         DELETE FROM claims.verification_passes p USING old WHERE p.pass = old.pass";
    PASS(UUIDOID) =
        "SELECT p.cell_id, p.source_type, p.correct, p.service FROM claims.verification_passes p WHERE p.pass = $1";
    LOCK(UUIDOID) =
        "SELECT p.divided_up_to, p.divided, p.finished_at IS NOT NULL, p.service
           FROM claims.verification_passes p WHERE p.pass = $1 FOR UPDATE";
    DIVIDE(UUIDOID, TEXTOID, TEXTOID) =
        "UPDATE claims.verification_passes p SET divided_up_to = $2, divided = $2 IS NULL, ranges = p.ranges + 1, service = $3
          WHERE p.pass = $1 RETURNING p.ranges";
    FINISH(UUIDOID) =
        "UPDATE claims.verification_passes p SET finished_at = clock_timestamp()
          WHERE p.pass = $1 AND NOT EXISTS (SELECT FROM claims.verification_ranges r WHERE r.pass = p.pass)";
    ADD_RANGE(UUIDOID, INT8OID, TEXTOID, TEXTOID) =
        "INSERT INTO claims.verification_ranges (pass, number, source_id_gt, source_id_lte) VALUES ($1, $2, $3, $4)";
    RANGE(UUIDOID, INT8OID) =
        "SELECT r.source_id_gt, r.source_id_lte FROM claims.verification_ranges r WHERE r.pass = $1 AND r.number = $2";
    /// ADVANCE and DONE change nothing if another session has moved the range's lower bound since $3 was read.
    ADVANCE(UUIDOID, INT8OID, TEXTOID, TEXTOID) =
        "UPDATE claims.verification_ranges r SET source_id_gt = $4
          WHERE r.pass = $1 AND r.number = $2 AND r.source_id_gt IS NOT DISTINCT FROM $3";
    DONE(UUIDOID, INT8OID, TEXTOID) =
        "DELETE FROM claims.verification_ranges r
          WHERE r.pass = $1 AND r.number = $2 AND r.source_id_gt IS NOT DISTINCT FROM $3";
}

/// A verification of all claims of a cell from one source type.
pub struct VerificationPass {
    pub uuid: Uuid,
    pub cell_id: i64,
    pub source_type: String,
    pub correct: bool,
    /// The service that its workers ask, once one of them has begun.
    pub service: Option<String>,
}

/// The progress of dividing a pass into ranges.
pub struct Division {
    /// Upper bound of the last range. `None`: there is no range yet, or the last one has no upper bound.
    pub up_to: Option<String>,
    /// Whether the range without upper bound exists.
    pub is_complete: bool,
    pub is_finished: bool,
    /// The service that the workers ask, once one of them has begun.
    pub service: Option<String>,
}

/// Returns the pass that has not finished.
pub fn open(connection: &Connection, cell_id: i64, source_type: &str, correct: bool) -> Option<Uuid> {
    let rows = connection.run(&OPEN, View::Statement, [cell_id.into(), source_type.into(), correct.into()]);
    rows.first(|row| from_pg_uuid(row.must::<PgUuid>(1)))
}

/// Begins a pass. Returns `false` if an unfinished one exists.
pub fn begin(connection: &Connection, pass: &VerificationPass) -> bool {
    let VerificationPass { uuid, cell_id, source_type, correct, .. } = pass;
    let values = [pg_uuid(*uuid).into(), (*cell_id).into(), source_type.as_str().into(), (*correct).into()];
    connection.run(&BEGIN, View::Statement, values).count() == 1
}

/// Deletes passes that finished more than a day ago.
pub fn purge(connection: &Connection) {
    connection.run(&PURGE, View::Statement, []);
}

pub fn pass(connection: &Connection, uuid: Uuid) -> Option<VerificationPass> {
    let rows = connection.run(&PASS, View::Statement, [pg_uuid(uuid).into()]);
    rows.first(|row| VerificationPass {
        uuid,
        cell_id: row.must(1),
        source_type: row.must(2),
        correct: row.must(3),
        service: row.get(4),
    })
}

/// Locks a pass, so that no other session divides it, and returns its progress.
pub fn lock(connection: &Connection, pass: Uuid) -> Option<Division> {
    let rows = connection.run(&LOCK, View::Statement, [pg_uuid(pass).into()]);
    rows.first(|row| Division {
        up_to: row.get(1),
        is_complete: row.must(2),
        is_finished: row.must(3),
        service: row.get(4),
    })
}

/// Adds the next range and returns its number. From then on all workers of the pass ask this service.
pub fn add_range(connection: &Connection, pass: Uuid, service: &str, range: &SourceRange) -> Option<i64> {
    let values = [pg_uuid(pass).into(), range.up_to.clone().into(), service.into()];
    let rows = connection.run(&DIVIDE, View::Statement, values);
    let number: i64 = rows.first(|row| row.must(1))?;
    let bounds = [range.above.clone().into(), range.up_to.clone().into()];
    let values = [pg_uuid(pass).into(), number.into()].into_iter().chain(bounds);
    connection.run(&ADD_RANGE, View::Statement, values);
    Some(number)
}

/// Marks a pass as finished if it has no ranges left. Returns whether it did.
pub fn finish(connection: &Connection, pass: Uuid) -> bool {
    connection.run(&FINISH, View::Statement, [pg_uuid(pass).into()]).count() == 1
}

/// Returns the part of a range that is not verified yet.
pub fn range(connection: &Connection, pass: Uuid, number: i64) -> Option<SourceRange> {
    let rows = connection.run(&RANGE, View::Statement, [pg_uuid(pass).into(), number.into()]);
    rows.first(|row| SourceRange { above: row.get(1), up_to: row.get(2) })
}

/// Records up to where a range is verified. Returns `false` if another session has changed the range.
pub fn advance(connection: &Connection, pass: Uuid, number: i64, was: Option<&str>, position: Option<&str>) -> bool {
    let values = [pg_uuid(pass).into(), number.into(), was.into(), position.into()];
    connection.run(&ADVANCE, View::Statement, values).count() == 1
}

/// Deletes a verified range. Returns `false` if another session has changed the range.
pub fn done(connection: &Connection, pass: Uuid, number: i64, was: Option<&str>) -> bool {
    connection.run(&DONE, View::Statement, [pg_uuid(pass).into(), number.into(), was.into()]).count() == 1
}
