//! Claims as callers read them.

use std::collections::HashMap;

use claims_model::{Bucket, Reference};

use super::statements;
use crate::kernel::tables::{Door, Local};
use crate::service::claims::{ClaimPart, StoredClaim, SubjectPlace, values_by_type};
use pg::clock::Moment;
use pg::index::Unusable;
use pg::spi::Connection;

/// Claims as callers read them.
pub trait RecordTables: Sync {
    /// Returns the claim on a bucket, in the snapshot of the calling query. The only error is that the tables were distributed after the call
    /// had chosen where to look.
    fn claim(&self, bucket_type: i32, bucket_value: &str) -> Result<Option<StoredClaim>, Unusable>;

    /// Returns stored claims with the cells that they are at, also where transfers hold them.
    fn located(&self, connection: &Connection, stored: Vec<StoredClaim>) -> Vec<StoredClaim>;

    /// Returns the claims on buckets, in the snapshot of the calling query and in the order of the buckets.
    fn claims(&self, connection: &Connection, buckets: &[Bucket]) -> Vec<StoredClaim> {
        let of_type = |(bucket_type, values): (i32, Vec<&str>)| statements::by_value(connection, bucket_type, &values);
        let stored = values_by_type(buckets).into_iter().flat_map(of_type).collect();
        let located = self.located(connection, stored).into_iter();
        let found: HashMap<Bucket, StoredClaim> = located.map(|claim| (claim.bucket(), claim)).collect();
        buckets.iter().filter_map(|bucket| found.get(bucket).cloned()).collect()
    }

    /// Returns at most `most` claims of a subject before a position, newest first, in the snapshot of the calling query. Reads all claims.
    fn claims_of_subject(
        &self,
        connection: &Connection,
        subject: &Reference,
        before: &SubjectPlace,
        most: i64,
    ) -> Vec<StoredClaim> {
        let SubjectPlace { created_at, bucket_type, bucket_value } = before;
        let (mut stored, Reference { type_id, id }) = (Vec::new(), subject);
        let each = &mut |claim| stored.push(claim);
        statements::of_subject(connection, *type_id, id, *created_at, *bucket_type, bucket_value, most, each);
        self.located(connection, stored)
    }

    /// Returns a page of a cell's claims.
    fn claim_page(&self, connection: &Connection, cell_id: i64, part: &ClaimPart, limit: i64) -> Vec<StoredClaim>;

    /// Returns the source types of a cell's claims that are not below `first`.
    fn source_types_from(&self, connection: &Connection, cell_id: i64, first: i32) -> Vec<i32>;

    /// Returns false if a look without a statement, in the snapshot of the calling query, shows that a cell has no outstanding lease from a time on.
    fn may_have_leases(&self, _cell_id: i64, _from: Moment) -> bool {
        true
    }
}

/// Where the claims are.
pub static RECORD_TABLES: Door<dyn RecordTables> = Door::local(&Local);
