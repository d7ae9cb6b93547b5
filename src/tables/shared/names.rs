//! Statements on the profiles of bucket types and on reserved names that work for local and distributed tables.

use claims_model::Naming;

use pg::spi::{Connection, View};
use pg::statement::shared_statement;

shared_statement! {
    FORGET_SKELETONS(INT4OID) = "DELETE FROM claims.skeletons s WHERE s.bucket_type = $1";
    SET_PROFILE(INT4OID, TEXTOID, TEXTOID) = "UPDATE claims.bucket_types SET profile = $2, confusables = $3 WHERE id = $1";
    RESERVED(INT4OID, TEXTARRAYOID) =
        "SELECT r.bucket_value FROM claims.reservations r WHERE r.bucket_type = $1 AND r.bucket_value = ANY ($2)";
    FREE_RESERVED(INT4OID, TEXTARRAYOID) =
        "DELETE FROM claims.claims c WHERE c.bucket_value = ANY ($2) AND c.bucket_type = $1 AND c.creator_id = -1";
    UNRESERVE(INT4OID, TEXTARRAYOID) =
        "DELETE FROM claims.reservations r WHERE r.bucket_type = $1 AND r.bucket_value = ANY ($2) RETURNING r.bucket_value";
}

pub fn forget_skeletons(connection: &Connection, bucket_type: i32) {
    connection.run(&FORGET_SKELETONS, View::Statement, [bucket_type.into()]);
}

/// Sets the profile of a type. All sessions use it after COMMIT.
pub fn set_profile(connection: &Connection, bucket_type: i32, naming: Naming) {
    let values = [bucket_type.into(), naming.profile.name().into(), naming.confusables.name().into()];
    connection.run(&SET_PROFILE, View::Statement, values);
}

/// Returns those of the names, all of one type, that are reserved.
pub fn reserved_among(connection: &Connection, bucket_type: i32, values: &[&str]) -> Vec<String> {
    connection.run(&RESERVED, View::Latest, [bucket_type.into(), values.to_vec().into()]).map(|row| row.must(1))
}

/// Frees reserved names of one type. Returns those that were reserved.
pub fn unreserve(connection: &Connection, bucket_type: i32, values: &[&str]) -> Vec<String> {
    let freed: Vec<String> = connection
        .run(&UNRESERVE, View::Statement, [bucket_type.into(), values.to_vec().into()])
        .map(|row| row.must(1));
    let held = freed.iter().map(String::as_str).collect::<Vec<_>>();
    connection.run(&FREE_RESERVED, View::Statement, [bucket_type.into(), held.into()]);
    freed
}
