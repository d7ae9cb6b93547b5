//! The tables as callers and verification read them: claims, the change feed, and epochs.

use std::collections::HashMap;
use std::ops::ControlFlow;

use claims_model::Bucket;
use claims_model::epoch::Epoch;
use claims_model::feed::ChangeCursor;
use pgrx::datum::Interval;

use crate::error::ClaimsError;
use crate::tables::rows::claims::{ClaimPart, StoredClaim};
use crate::tables::rows::feed::StoredSet;
use crate::tables::rows::verify::{Actual, DigestRow, Part};
use pg::clock::Moment;
use pg::spi::Connection;

/// Claims as callers read them.
pub trait RecordTables {
    /// Returns the claim on a bucket, in the snapshot of the calling query.
    fn claim(&self, bucket_type: i32, bucket_value: &str) -> Option<StoredClaim>;

    /// Returns the claims on buckets, in the snapshot of the calling query and in the order of the buckets.
    fn claims(&self, connection: &Connection, buckets: &[Bucket]) -> Vec<StoredClaim>;

    /// Returns a page of a cell's claims.
    fn claim_page(&self, connection: &Connection, cell_id: i64, part: &ClaimPart, limit: i64) -> Vec<StoredClaim>;

    /// Returns the source types of a cell's claims that are not below `first`.
    fn source_types_from(&self, connection: &Connection, cell_id: i64, first: i32) -> Vec<i32>;
}

/// Claims as verification reads them.
pub trait VerificationTables {
    /// Returns the claims that are committed on buckets now. A claim is recent if it changed within an interval.
    fn actual_on(
        &self,
        connection: &Connection,
        buckets: &[&Bucket],
        recent: Interval,
    ) -> HashMap<Bucket<'static>, Actual>;

    /// Returns the claims of a part that are committed now, at most `limit`.
    fn actual_in(&self, connection: &Connection, part: &Part, recent: Interval, limit: usize) -> Vec<Actual>;

    /// Passes the claims of a part to `each`, in the snapshot of the calling query and in no order.
    fn each_in(&self, connection: &Connection, part: &Part, each: &mut dyn FnMut(DigestRow));
}

/// The change feed for readers.
pub trait FeedPages {
    /// Passes the rows of the feed after a cursor, or from its beginning, to `each`, with the cursor that they follow: rows with
    /// changes of one type, or all. The caller wants about `limit` changes.
    fn each_change(
        &self,
        connection: &Connection,
        after: Option<ChangeCursor>,
        wanted: WantedChanges,
        each: &mut dyn FnMut(&ChangeCursor, StoredSet) -> ControlFlow<()>,
    ) -> Result<(), ClaimsError>;

    /// Returns the cursor of the last change that readers can get.
    fn newest_change(&self, connection: &Connection) -> Result<ChangeCursor, ClaimsError>;
}

/// The database that acts for a cell, as every save is compared with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActingPlace {
    pub epoch: Epoch,
    pub place: Option<i64>,
    pub acted_at: Option<Moment>,
}

/// Epochs, by which the service distinguishes the databases of a cell.
pub trait EpochTables {
    /// Returns the epoch that a cell's database has presented last, and the place of that database, as committed now.
    fn acting(&self, cell_id: i64) -> Option<ActingPlace>;

    /// Notes that the acting database of a cell, at this place, acts. Waits for nobody, and does nothing where that would cost more than it is worth.
    fn note_act(&self, cell_id: i64, place: i64);
}

/// The changes that a reader of the feed wants.
#[derive(Debug, Clone, Copy)]
pub struct WantedChanges {
    pub bucket_type: Option<i32>,
    pub limit: usize,
}
