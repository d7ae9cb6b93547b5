//! Moves the right to names that are kept back with the customer who gave them up, step by step. For local and distributed tables.

use claims_model::Bucket;
use uuid::Uuid;

use super::tables::{STEP, Transfer};
use crate::kernel::call::Call;
use crate::service::claims::kept::change_kept;
use crate::service::claims::{BucketRow, CLAIM_TABLES, values_by_type};
use pg::query::query;

query! {
    fn kept_of_subjects(transfer: Uuid, from_cell: i64, most: i64) -> Vec<BucketRow> = [Latest Anywhere]
        "SELECT c.bucket_type, c.bucket_value
           FROM claims.claims c JOIN claims.transfer_subjects s
             ON s.transfer_uuid = :transfer AND s.subject_type = c.subject_type AND s.subject_id = c.subject_id
          WHERE c.creator_id = -1 AND c.status IN (5, 6) AND c.given_up_by = :from_cell LIMIT :most";
    fn kept_of_cell(from_cell: i64, most: i64) -> Vec<BucketRow> = [Latest Anywhere]
        "SELECT c.bucket_type, c.bucket_value FROM claims.claims c
          WHERE c.creator_id = -1 AND c.status IN (5, 6) AND c.given_up_by = :from_cell LIMIT :most";
    /// Moves rights to names of one shard. Skips those that another transaction has locked.
    fn move_kept(from_cell: i64, to_cell: i64, bucket_type: i32, bucket_values: &[&str]) -> usize = [Statement Anywhere] concat!(
        "WITH free AS MATERIALIZED (
             SELECT c.bucket_value FROM claims.claims c
              WHERE c.bucket_value = ANY (:bucket_values) AND c.bucket_type = :bucket_type AND c.creator_id = -1 AND c.status IN (5, 6)
                AND c.given_up_by = :from_cell FOR UPDATE OF c SKIP LOCKED) ",
        change_kept!("given_up_by = :to_cell FROM free f",
                     "c.bucket_value = f.bucket_value AND c.bucket_value = ANY (:bucket_values) AND c.bucket_type = :bucket_type"));
}

/// Names that are kept back, with a right that a transfer moves.
pub struct MovedRights {
    pub found: i64,
    pub moved: i64,
}

/// Moves the right to some names that are kept back, of the transfer's subjects, from its old cell to its new one. Returns how many it has found
/// and how many it has moved. Does not wait for other transactions.
pub fn move_some(call: &Call, transfer: &Transfer) -> MovedRights {
    let Transfer { uuid, from_cell, to_cell, is_whole, .. } = *transfer;
    let kept = match is_whole {
        true => kept_of_cell(call.connection, from_cell, STEP),
        false => kept_of_subjects(call.connection, uuid, from_cell, STEP),
    };
    let kept: Vec<Bucket> = kept.into_iter().map(Bucket::from).collect();
    let mut moved = 0;
    for part in CLAIM_TABLES.of(call).parts(call.connection, &kept.iter().collect::<Vec<_>>()) {
        for (bucket_type, mut values) in values_by_type(part.into_iter().map(|at| &kept[at])) {
            values.sort_unstable();
            moved += move_kept(call.connection, from_cell, to_cell, bucket_type, &values) as i64;
            pgrx::check_for_interrupts!();
        }
    }
    MovedRights { found: kept.len() as i64, moved }
}
