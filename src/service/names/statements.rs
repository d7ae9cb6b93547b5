//! Statements on the profiles of bucket types and on reserved names that work for local and distributed tables.

use claims_model::Naming;

use pg::query::query;
use pg::spi::Connection;

query! {
    pub fn forget_skeletons(bucket_type: i32) = [Statement Anywhere] "DELETE FROM claims.skeletons s WHERE s.bucket_type = :bucket_type";
    fn put_profile(bucket_type: i32, profile: &str, confusables: &str) = [Statement Anywhere]
        "UPDATE claims.bucket_types SET profile = :profile, confusables = :confusables WHERE id = :bucket_type";
    /// Returns those of the names, all of one type, that are reserved.
    pub fn reserved_among(bucket_type: i32, names: &[&str]) -> Vec<String> = [Latest Anywhere]
        "SELECT r.bucket_value FROM claims.reservations r WHERE r.bucket_type = :bucket_type AND r.bucket_value = ANY (:names)";
    fn free_reserved(bucket_type: i32, names: &[String]) = [Statement Anywhere]
        "DELETE FROM claims.claims c WHERE c.bucket_value = ANY (:names) AND c.bucket_type = :bucket_type AND c.creator_id = -1
            AND c.status = 1";
    fn delete_reservations(bucket_type: i32, names: &[&str]) -> Vec<String> = [Statement Anywhere]
        "DELETE FROM claims.reservations r WHERE r.bucket_type = :bucket_type AND r.bucket_value = ANY (:names) RETURNING r.bucket_value";
}

/// Sets the profile of a type. All sessions use it after COMMIT.
pub fn set_profile(connection: &Connection, bucket_type: i32, naming: Naming) {
    put_profile(connection, bucket_type, naming.profile.name(), naming.confusables.name());
}

/// Frees reserved names of one type. Returns those that were reserved.
pub fn unreserve(connection: &Connection, bucket_type: i32, names: &[&str]) -> Vec<String> {
    let freed = delete_reservations(connection, bucket_type, names);
    free_reserved(connection, bucket_type, &freed);
    freed
}
