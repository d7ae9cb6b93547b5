//! Statements that correct claims, for local and distributed tables. On a shard's node they check that the write belongs there.

use claims_model::{Bucket, Claim};
use uuid::Uuid;

use super::tables::Actual;
use crate::service::claims::kept;
use crate::service::claims::{NewClaims, types_and_names};
use pg::clock::Moment;
use pg::query::query;
use pg::spi::Connection;

query! {
    /// Replaces subject and source of claims that were read with these uuids and under these cells, unless they have changed since. The
    /// results are other claims with their own uuids and ages, so a session that has read the old ones will not change them.
    fn replace_read(read_uuids: &[Uuid], read_cells: &[i64], at: Moment; ..new: NewClaims) -> usize = [Statement Anywhere]
        "UPDATE claims.claims c
            SET uuid = n.uuid, subject_type = n.subject_type, subject_id = n.subject_id, source_type = n.source_type, source_id = n.source_id,
                display_value = n.display_value, created_at = :at, updated_at = :at
           FROM (SELECT * FROM unnest(:uuid, :bucket_type, :bucket_value, :subject_type, :subject_id, :source_type, :source_id, :display_value,
                                      :read_uuids, :read_cells)
                     AS n (uuid, bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, display_value, old_uuid, cell_id)
                 OFFSET 0) n
          WHERE c.bucket_value = ANY (:bucket_value) AND c.bucket_value = n.bucket_value AND c.bucket_type = n.bucket_type AND c.uuid = n.old_uuid
            AND c.creator_id = n.cell_id AND c.status = 1 AND c.lease_uuid IS NULL
         RETURNING claims.is_current_shard(c.tableoid)";
    /// Deletes claims that were read with these uuids and under these cells, unless they have changed since.
    fn remove_read(bucket_types: &[i32], bucket_values: &[&str], read_uuids: &[Uuid], read_cells: &[i64]) -> usize = [Statement Anywhere]
        "DELETE FROM claims.claims c
          WHERE c.bucket_value = ANY (:bucket_values) AND c.bucket_type = ANY (:bucket_types) AND c.uuid = ANY (:read_uuids)
            AND c.creator_id = ANY (:read_cells) AND c.status = 1 AND c.lease_uuid IS NULL
         RETURNING claims.is_current_shard(c.tableoid)";
}

/// Replaces subject and source of claims in place. Returns the number of those that have not changed since they were read.
pub fn replace(connection: &Connection, claims: &[(&Actual, &Claim)]) -> usize {
    let new: Vec<&Claim> = claims.iter().map(|(_, claim)| *claim).collect();
    let (uuids, cells): (Vec<Uuid>, Vec<i64>) = claims.iter().map(|(read, _)| (read.uuid, read.cell_id)).unzip();
    replace_read(connection, &uuids, &cells, Moment::now(), NewClaims::of(&new))
}

/// Deletes claims. Returns the number of those that have not changed since they were read.
pub fn remove(connection: &Connection, claims: &[&Actual]) -> usize {
    let buckets: Vec<&Bucket> = claims.iter().map(|read| &read.claim.bucket).collect();
    let (types, values) = types_and_names(&buckets);
    let (uuids, cells): (Vec<Uuid>, Vec<i64>) = claims.iter().map(|read| (read.uuid, read.cell_id)).unzip();
    remove_read(connection, &types, &values, &uuids, &cells)
}

/// Keeps back the names of claims, all of one type. Returns the number of those that have not changed since they were read.
pub fn keep_back(connection: &Connection, claims: &[&Actual], at: Moment, available_at: Moment) -> usize {
    let Some(first) = claims.first() else { return 0 };
    let values: Vec<&str> = claims.iter().map(|read| &*read.claim.bucket.value).collect();
    let (uuids, cells): (Vec<Uuid>, Vec<i64>) = claims.iter().map(|read| (read.uuid, read.cell_id)).unzip();
    kept::keep_read(connection, first.claim.bucket.bucket_type, &values, &uuids, &cells, at, available_at)
}
