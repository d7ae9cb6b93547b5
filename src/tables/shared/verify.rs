//! Statements that correct claims, for local and distributed tables. On a shard's node they check that the write belongs there.

use claims_model::Claim;
use pgrx::Uuid as PgUuid;
use uuid::Uuid;

use crate::tables::rows::buckets::claim_values;
use crate::tables::rows::verify::Actual;
use pg::clock::Moment;
use pg::spi::{Connection, Value, View};
use pg::statement::shared_statement;
use pg::uuid::pg_uuid;

shared_statement! {
    ADD(UUIDOID, INT4OID, TEXTOID, INT4OID, TEXTOID, INT4OID, TEXTOID, INT8OID, TIMESTAMPTZOID, TEXTOID) =
        "INSERT INTO claims.claims (uuid, bucket_type, bucket_value, subject_type, subject_id, source_type, source_id,
                                    creator_id, status, created_at, updated_at, display_value)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 1, $9, $9, $10) RETURNING claims.is_current_shard(tableoid)";
    /// Replaces subject and source of the claim that was read with uuid $9, unless it has changed since. The result is another
    /// claim with its own uuid and age, so a session that has read the old one will not change it.
    REPLACE(UUIDOID, INT4OID, TEXTOID, INT4OID, TEXTOID, TIMESTAMPTZOID, INT4OID, TEXTOID, UUIDOID, INT8OID, TEXTOID) =
        "UPDATE claims.claims c SET uuid = $1, subject_type = $2, subject_id = $3, source_type = $4, source_id = $5,
                                    created_at = $6, updated_at = $6, display_value = $11
          WHERE c.bucket_type = $7 AND c.bucket_value = $8 AND c.uuid IS NOT DISTINCT FROM $9
            AND c.creator_id IS NOT DISTINCT FROM $10 AND c.status = 1 AND c.lease_uuid IS NULL
         RETURNING claims.is_current_shard(c.tableoid)";
    /// Deletes the claim that was read with uuid $3, unless it has changed since.
    REMOVE(INT4OID, TEXTOID, UUIDOID, INT8OID) =
        "DELETE FROM claims.claims c
          WHERE c.bucket_type = $1 AND c.bucket_value = $2 AND c.uuid IS NOT DISTINCT FROM $3
            AND c.creator_id IS NOT DISTINCT FROM $4 AND c.status = 1 AND c.lease_uuid IS NULL
         RETURNING claims.is_current_shard(c.tableoid)";
}

fn new_uuid() -> PgUuid {
    pg_uuid(Uuid::now_v7())
}

/// Adds a claim. An existing bucket is a unique violation.
pub fn add(connection: &Connection, cell_id: i64, claim: &Claim) -> bool {
    let values =
        claim_values(claim).into_iter().chain([cell_id.into(), Moment::now().into(), claim.display.as_deref().into()]);
    connection.run(&ADD, View::Statement, values).count() == 1
}

/// Replaces subject and source of a claim in place. Returns `false` if it has changed since it was read.
pub fn replace(connection: &Connection, seen: &Actual, claim: &Claim) -> bool {
    let Claim { bucket, subject, source, display } = claim;
    let values: [Value; 11] = [
        new_uuid().into(),
        subject.type_id.into(),
        (&*subject.id).into(),
        source.type_id.into(),
        (&*source.id).into(),
        Moment::now().into(),
        bucket.bucket_type.into(),
        (&*bucket.value).into(),
        pg_uuid(seen.uuid).into(),
        seen.cell_id.into(),
        display.as_deref().into(),
    ];
    connection.run(&REPLACE, View::Statement, values).count() == 1
}

/// Deletes a claim. Returns `false` if it has changed since it was read.
pub fn remove(connection: &Connection, seen: &Actual) -> bool {
    let bucket = &seen.claim.bucket;
    let values: [Value; 4] =
        [bucket.bucket_type.into(), (&*bucket.value).into(), pg_uuid(seen.uuid).into(), seen.cell_id.into()];
    connection.run(&REMOVE, View::Statement, values).count() == 1
}
