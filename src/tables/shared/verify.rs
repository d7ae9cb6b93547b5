//! Statements that correct claims, for local and distributed tables. On a shard's node they check that the write belongs there.

use claims_model::{Bucket, Claim};

use crate::tables::rows::buckets::{displayed_arrays, types_and_values};
use crate::tables::rows::verify::Actual;
use pg::clock::Moment;
use pg::spi::{Connection, Value, View};
use pg::statement::shared_statement;
use pg::uuid::pg_uuids;

shared_statement! {
    /// Replaces subject and source of claims that were read with uuids $9 under cells $10, unless they have changed since. The
    /// results are other claims with their own uuids and ages, so a session that has read the old ones will not change them.
    REPLACE(UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID, INT4ARRAYOID, TEXTARRAYOID, INT4ARRAYOID, TEXTARRAYOID, TEXTARRAYOID,
            UUIDARRAYOID, INT8ARRAYOID, TIMESTAMPTZOID) =
        "UPDATE claims.claims c
            SET uuid = n.uuid, subject_type = n.subject_type, subject_id = n.subject_id, source_type = n.source_type, source_id = n.source_id,
                display_value = n.display_value, created_at = $11, updated_at = $11
           FROM (SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
                     AS n (uuid, bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, display_value, old_uuid, cell_id)
                 OFFSET 0) n
          WHERE c.bucket_value = ANY ($3) AND c.bucket_value = n.bucket_value AND c.bucket_type = n.bucket_type AND c.uuid = n.old_uuid
            AND c.creator_id = n.cell_id AND c.status = 1 AND c.lease_uuid IS NULL
         RETURNING claims.is_current_shard(c.tableoid)";
    /// Deletes claims that were read with uuids $3 and the cells $4, unless they have changed since.
    REMOVE(INT4ARRAYOID, TEXTARRAYOID, UUIDARRAYOID, INT8ARRAYOID) =
        "DELETE FROM claims.claims c
          WHERE c.bucket_value = ANY ($2) AND c.bucket_type = ANY ($1) AND c.uuid = ANY ($3) AND c.creator_id = ANY ($4)
            AND c.status = 1 AND c.lease_uuid IS NULL
         RETURNING claims.is_current_shard(c.tableoid)";
}

/// Returns the uuids and the cells of claims as they were read.
fn seen<'a>(claims: impl Iterator<Item = &'a Actual> + Clone) -> [Value; 2] {
    [pg_uuids(claims.clone().map(|seen| seen.uuid)), claims.map(|seen| seen.cell_id).collect::<Vec<_>>().into()]
}

/// Replaces subject and source of claims in place. Returns the number of those that have not changed since they were read.
pub fn replace(connection: &Connection, claims: &[(&Actual, &Claim)]) -> usize {
    let new: Vec<&Claim> = claims.iter().map(|(_, claim)| *claim).collect();
    let old = seen(claims.iter().map(|(actual, _)| *actual));
    let values = displayed_arrays(&new).chain(old).chain([Moment::now().into()]);
    connection.run(&REPLACE, View::Statement, values).count()
}

/// Deletes claims. Returns the number of those that have not changed since they were read.
pub fn remove(connection: &Connection, claims: &[&Actual]) -> usize {
    let buckets: Vec<&Bucket> = claims.iter().map(|actual| &actual.claim.bucket).collect();
    let values = types_and_values(&buckets).into_iter().chain(seen(claims.iter().copied()));
    connection.run(&REMOVE, View::Statement, values).count()
}
