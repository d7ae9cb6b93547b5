//! Statements on the profiles of bucket types, on reserved names and on names that are handed over. They work for local and distributed tables.

use claims_model::{Bucket, Claim, Naming, Reference};

use crate::service::claims::{NewClaim, StoredOwner, kept};
use pg::clock::Moment;
use pg::query::{query, record};
use pg::spi::Connection;

record! {
    /// A row of a name, which is locked.
    pub struct LockedName {
        pub creator_id: i64,
        pub status: i16,
        pub available_at: Option<Moment>,
        pub subject_type: i32,
        pub subject_id: String,
        pub source_type: i32,
        pub source_id: String,
    }
}

impl LockedName {
    /// Returns the subject and the source of the claim.
    pub fn owner(&self) -> StoredOwner {
        StoredOwner {
            subject: Reference { type_id: self.subject_type, id: self.subject_id.clone().into() },
            source: Reference { type_id: self.source_type, id: self.source_id.clone().into() },
        }
    }
}

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
    fn lock(bucket_type: i32, bucket_value: &str) -> Option<LockedName> = [Statement OneShard]
        "SELECT c.creator_id, c.status, c.available_at, c.subject_type, c.subject_id, c.source_type, c.source_id FROM claims.claims c
          WHERE c.bucket_value = :bucket_value AND c.bucket_type = :bucket_type FOR UPDATE";
    fn drop_reservation(bucket_type: i32, bucket_value: &str) -> usize = [Statement Anywhere]
        "DELETE FROM claims.reservations r WHERE r.bucket_value = :bucket_value AND r.bucket_type = :bucket_type";
    /// Returns the number of a cell's claims that no lease holds.
    pub fn count_claims(cell_id: i64) -> i64 = [Caller Anywhere]
        "SELECT count(*) FROM claims.claims c WHERE c.creator_id = :cell_id AND c.status = 1";
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

/// Locks the row of a name, and returns it. Waits up to the lock timeout.
pub fn locked(connection: &Connection, bucket: &Bucket) -> Option<LockedName> {
    lock(connection, bucket.bucket_type, &bucket.value)
}

/// Makes a locked name the ACTIVE claim of a cell. Returns the number of rows.
pub fn give_to(connection: &Connection, cell_id: i64, claim: &Claim, former: &LockedName) -> usize {
    kept::hand_over(connection, cell_id, Moment::now(), former.creator_id, former.status, NewClaim::of(claim))
}

/// Ends the reservation of a name, if there is one.
pub fn end_reservation(connection: &Connection, bucket: &Bucket) {
    drop_reservation(connection, bucket.bucket_type, &bucket.value);
}
