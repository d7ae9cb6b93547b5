//! Claims as callers read them.

use claims_model::{Bucket, Reference};

use crate::kernel::tables::{Door, Local};
use crate::service::claims::{ClaimPart, StoredClaim, SubjectPlace};
use pg::spi::Connection;

/// Claims as callers read them.
pub trait RecordTables: Sync {
    /// Returns the claim on a bucket, in the snapshot of the calling query.
    fn claim(&self, bucket_type: i32, bucket_value: &str) -> Option<StoredClaim>;

    /// Returns the claims on buckets, in the snapshot of the calling query and in the order of the buckets.
    fn claims(&self, connection: &Connection, buckets: &[Bucket]) -> Vec<StoredClaim>;

    /// Returns at most `most` claims of a subject before a position, newest first, in the snapshot of the calling query. Reads all claims.
    fn claims_of_subject(
        &self,
        connection: &Connection,
        subject: &Reference,
        before: &SubjectPlace,
        most: i64,
    ) -> Vec<StoredClaim>;

    /// Returns a page of a cell's claims.
    fn claim_page(&self, connection: &Connection, cell_id: i64, part: &ClaimPart, limit: i64) -> Vec<StoredClaim>;

    /// Returns the source types of a cell's claims that are not below `first`.
    fn source_types_from(&self, connection: &Connection, cell_id: i64, first: i32) -> Vec<i32>;
}

/// Where the claims are.
pub static RECORD_TABLES: Door<dyn RecordTables> = Door::local(&Local);
