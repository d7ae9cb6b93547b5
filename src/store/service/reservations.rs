//! Statements on names that are reserved: each has a row that says why, and a claim of nobody that keeps everybody out.

use claims_model::Bucket;
use uuid::Uuid;

use crate::distribution;
use crate::pg::clock::Moment;
use crate::pg::spi::{Connection, View};
use crate::pg::statement::{shared_statement, statement};
use crate::pg::uuid::{pg_uuid, pg_uuids};

statement! {
    HOLD(INT4OID, UUIDARRAYOID, TEXTARRAYOID, TEXTARRAYOID, TIMESTAMPTZOID) =
        "INSERT INTO claims.claims (uuid, bucket_type, bucket_value, subject_type, subject_id, source_type, source_id,
                                    creator_id, status, created_at, updated_at, display_value)
         SELECT n.uuid, $1, n.bucket_value, 0, '0', 0, '0', -1, 1, $5, $5, n.display_value
           FROM unnest($2, $3, $4) AS n (uuid, bucket_value, display_value)";
    RESERVE(INT4OID, TEXTARRAYOID, TEXTARRAYOID, TEXTOID, TEXTOID, TIMESTAMPTZOID) =
        "INSERT INTO claims.reservations (bucket_type, bucket_value, display_value, reason, reserved_by, reserved_at)
         SELECT $1, n.bucket_value, n.display_value, $4, $5, $6 FROM unnest($2, $3) AS n (bucket_value, display_value)";
}

shared_statement! {
    RESERVED(INT4OID, TEXTARRAYOID) =
        "SELECT r.bucket_value FROM claims.reservations r WHERE r.bucket_type = $1 AND r.bucket_value = ANY ($2)";
    LET_GO(INT4OID, TEXTARRAYOID) =
        "DELETE FROM claims.claims c WHERE c.bucket_value = ANY ($2) AND c.bucket_type = $1 AND c.creator_id = -1";
    UNRESERVE(INT4OID, TEXTARRAYOID) =
        "DELETE FROM claims.reservations r WHERE r.bucket_type = $1 AND r.bucket_value = ANY ($2) RETURNING r.bucket_value";
    /// Where the tables are spread: one name of one shard.
    HOLD_ONE(INT4OID, UUIDOID, TEXTOID, TEXTOID, TIMESTAMPTZOID) =
        "INSERT INTO claims.claims (uuid, bucket_type, bucket_value, subject_type, subject_id, source_type, source_id,
                                    creator_id, status, created_at, updated_at, display_value)
         VALUES ($2, $1, $3, 0, '0', 0, '0', -1, 1, $5, $5, $4)";
    RESERVE_ONE(INT4OID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TIMESTAMPTZOID) =
        "INSERT INTO claims.reservations (bucket_type, bucket_value, display_value, reason, reserved_by, reserved_at)
         VALUES ($1, $2, $3, $4, $5, $6)";
}

/// A name to reserve, and the form as it was given where that is another one.
pub struct Reserved {
    pub bucket: Bucket<'static>,
    pub display: Option<String>,
}

/// Which of the names, all of one type, are reserved.
pub fn among(connection: &Connection, bucket_type: i32, values: &[&str]) -> Vec<String> {
    connection.run(&RESERVED, View::Latest, [bucket_type.into(), values.to_vec().into()]).map(|row| row.must(1))
}

/// Reserves names of one type. One that is claimed is a unique violation.
pub fn reserve(connection: &Connection, bucket_type: i32, names: &[&Reserved], reason: &str, role: &str) {
    if distribution::is_spread() {
        names.iter().for_each(|name| reserve_one(connection, bucket_type, name, reason, role));
        return;
    }
    let (now, uuids) = (Moment::now(), pg_uuids(names.iter().map(|_| Uuid::now_v7())));
    let values = || names.iter().map(|name| &*name.bucket.value).collect::<Vec<&str>>();
    let displays = || names.iter().map(|name| name.display.as_deref()).collect::<Vec<Option<&str>>>();
    let held = [bucket_type.into(), uuids, values().into(), displays().into(), now.into()];
    connection.run(&HOLD, View::Statement, held);
    let told = [bucket_type.into(), values().into(), displays().into(), reason.into(), role.into(), now.into()];
    connection.run(&RESERVE, View::Statement, told);
}

/// Gives names of one type free; returns those that were reserved.
pub fn unreserve(connection: &Connection, bucket_type: i32, values: &[&str]) -> Vec<String> {
    let freed: Vec<String> = connection
        .run(&UNRESERVE, View::Statement, [bucket_type.into(), values.to_vec().into()])
        .map(|row| row.must(1));
    let held = freed.iter().map(String::as_str).collect::<Vec<_>>();
    connection.run(&LET_GO, View::Statement, [bucket_type.into(), held.into()]);
    freed
}

fn reserve_one(connection: &Connection, bucket_type: i32, name: &Reserved, reason: &str, role: &str) {
    let (now, value, display) = (Moment::now(), &*name.bucket.value, name.display.as_deref());
    let held = [bucket_type.into(), pg_uuid(Uuid::now_v7()).into(), value.into(), display.into(), now.into()];
    connection.run(&HOLD_ONE, View::Statement, held);
    let told = [bucket_type.into(), value.into(), display.into(), reason.into(), role.into(), now.into()];
    connection.run(&RESERVE_ONE, View::Statement, told);
}
