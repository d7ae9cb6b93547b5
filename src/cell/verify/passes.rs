//! Statements on verifications that several workers share: the passes, and their ranges that are not verified yet. An expiring
//! claim on a range's number says which worker has the range.

use claims_model::source_range::SourceRange;
use uuid::Uuid;

use pg::query::{query, record};
use pg::spi::Connection;

record! {
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

    struct RangeRow {
        above: Option<String>,
        up_to: Option<String>,
    }
}

query! {
    /// Returns the pass that has not finished.
    pub fn open(cell_id: i64, source_type: &str, correct: bool) -> Option<Uuid> = [Statement]
        "SELECT p.pass FROM claims.verification_passes p
          WHERE p.cell_id = :cell_id AND p.source_type = :source_type AND p.correct = :correct AND p.finished_at IS NULL";
    /// Begins a pass. Returns `false` if an unfinished one exists.
    pub fn begin(pass: Uuid, cell_id: i64, source_type: &str, correct: bool) -> bool = [Statement]
        "INSERT INTO claims.verification_passes (pass, cell_id, source_type, correct) VALUES (:pass, :cell_id, :source_type, :correct)
         ON CONFLICT (cell_id, source_type, correct) WHERE finished_at IS NULL DO NOTHING";
    /// Deletes passes that finished more than a day ago. Until then each of their workers can see the end.
    pub fn purge() = [Statement]
        "WITH old AS MATERIALIZED (
             SELECT p.pass FROM claims.verification_passes p
              WHERE p.finished_at < clock_timestamp() - interval '1 day' FOR UPDATE SKIP LOCKED)
         DELETE FROM claims.verification_passes p USING old WHERE p.pass = old.pass";
    pub fn pass(uuid: Uuid) -> Option<VerificationPass> = [Statement]
        "SELECT p.pass AS uuid, p.cell_id, p.source_type, p.correct, p.service FROM claims.verification_passes p WHERE p.pass = :uuid";
    /// Locks a pass, so that no other session divides it, and returns its progress.
    pub fn lock(pass: Uuid) -> Option<Division> = [Statement]
        "SELECT p.divided_up_to AS up_to, p.divided AS is_complete, p.finished_at IS NOT NULL AS is_finished, p.service
           FROM claims.verification_passes p WHERE p.pass = :pass FOR UPDATE";
    /// Returns the number of the next range, of which this is the upper bound.
    fn divide(pass: Uuid, up_to: Option<&str>, service: &str) -> Option<i64> = [Statement]
        "UPDATE claims.verification_passes p SET divided_up_to = :up_to, divided = :up_to IS NULL, ranges = p.ranges + 1, service = :service
          WHERE p.pass = :pass RETURNING p.ranges";
    /// Marks a pass as finished if it has no ranges left. Returns whether it did.
    pub fn finish(pass: Uuid) -> bool = [Statement]
        "UPDATE claims.verification_passes p SET finished_at = clock_timestamp()
          WHERE p.pass = :pass AND NOT EXISTS (SELECT FROM claims.verification_ranges r WHERE r.pass = p.pass)";
    fn insert_range(pass: Uuid, number: i64, above: Option<&str>, up_to: Option<&str>) = [Statement]
        "INSERT INTO claims.verification_ranges (pass, number, source_id_gt, source_id_lte) VALUES (:pass, :number, :above, :up_to)";
    fn range_row(pass: Uuid, number: i64) -> Option<RangeRow> = [Statement]
        "SELECT r.source_id_gt AS above, r.source_id_lte AS up_to FROM claims.verification_ranges r WHERE r.pass = :pass AND r.number = :number";
    /// Records up to where a range is verified. Returns `false` if another session has moved its lower bound since `was` was read.
    pub fn advance(pass: Uuid, number: i64, was: Option<&str>, position: Option<&str>) -> bool = [Statement]
        "UPDATE claims.verification_ranges r SET source_id_gt = :position
          WHERE r.pass = :pass AND r.number = :number AND r.source_id_gt IS NOT DISTINCT FROM :was";
    /// Deletes a verified range. Returns `false` if another session has moved its lower bound since `was` was read.
    pub fn done(pass: Uuid, number: i64, was: Option<&str>) -> bool = [Statement]
        "DELETE FROM claims.verification_ranges r
          WHERE r.pass = :pass AND r.number = :number AND r.source_id_gt IS NOT DISTINCT FROM :was";
}

/// Adds the next range and returns its number. From then on all workers of the pass ask this service.
pub fn add_range(connection: &Connection, pass: Uuid, service: &str, range: &SourceRange) -> Option<i64> {
    let number = divide(connection, pass, range.up_to.as_deref(), service)?;
    insert_range(connection, pass, number, range.above.as_deref(), range.up_to.as_deref());
    Some(number)
}

/// Returns the part of a range that is not verified yet.
pub fn range(connection: &Connection, pass: Uuid, number: i64) -> Option<SourceRange> {
    range_row(connection, pass, number).map(|RangeRow { above, up_to }| SourceRange { above, up_to })
}
