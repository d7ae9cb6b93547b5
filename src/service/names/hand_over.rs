//! Statements that give a name to a cell, whoever has had it. For local and distributed tables.

use claims_model::{Bucket, Claim, Reference};

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
    fn lock(bucket_type: i32, bucket_value: &str) -> Option<LockedName> = [Statement OneShard]
        "SELECT c.creator_id, c.status, c.available_at, c.subject_type, c.subject_id, c.source_type, c.source_id FROM claims.claims c
          WHERE c.bucket_value = :bucket_value AND c.bucket_type = :bucket_type FOR UPDATE";
    fn drop_reservation(bucket_type: i32, bucket_value: &str) -> usize = [Statement Anywhere]
        "DELETE FROM claims.reservations r WHERE r.bucket_value = :bucket_value AND r.bucket_type = :bucket_type";
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
