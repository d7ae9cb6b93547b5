//! Statements that read claims, for local and distributed tables.

use crate::service::claims::StoredClaim;
use pg::clock::Moment;
use pg::query::{query, scan};

/// The columns of a claim, with an expression for its cell.
macro_rules! columns {
    ($cell:literal) => {
        concat!(
            "SELECT c.uuid, c.bucket_type, c.bucket_value, c.subject_type, c.subject_id, c.source_type, c.source_id, ",
            $cell,
            " AS cell_id, c.status, c.lease_uuid, c.created_at, c.updated_at, c.display_value FROM claims.claims c WHERE "
        )
    };
}
pub(crate) use columns;

query! {
    /// Returns claims of one bucket type, with the cells under which they are stored.
    pub fn by_value(bucket_type: i32, bucket_values: &[&str]) -> Vec<StoredClaim> = [Caller Anywhere] concat!(
        columns!("c.creator_id"), "c.bucket_type = :bucket_type AND c.bucket_value = ANY (:bucket_values) AND c.creator_id <> -1");
}

scan! {
    /// Passes at most `most` owned claims of a subject and names of it that are kept back, before a position, newest first, with the cells under
    /// which they are stored, or which have given them up. A claim has its place from its creation on, a name since it was given up.
    pub fn of_subject(subject_type: i32, subject_id: &str, at: Moment, bucket_type: i32, bucket_value: &str, most: i64) -> StoredClaim = [Caller]
        concat!(
            columns!("coalesce(c.given_up_by, c.creator_id)"),
            "c.subject_type = :subject_type AND c.subject_id = :subject_id
               AND (c.status IN (1, 3, 4) AND c.creator_id <> -1 OR c.status IN (5, 6) AND c.available_at > clock_timestamp())
               AND (CASE WHEN c.status IN (5, 6) THEN c.updated_at ELSE c.created_at END, c.bucket_type, c.bucket_value)
                   < (:at, :bucket_type, :bucket_value)
             ORDER BY CASE WHEN c.status IN (5, 6) THEN c.updated_at ELSE c.created_at END DESC, c.bucket_type DESC, c.bucket_value DESC
             LIMIT :most");
}
