//! Claims as verification reads them: their rows, and how the tables find them.

use std::collections::HashMap;

use claims_model::quarantine::{Asking, KeptBack};
use claims_model::source_range::SourceRange;
use claims_model::verify::ClaimState;
use claims_model::{Bucket, Claim, NOBODY, Reference};
use pgrx::datum::Interval;
use uuid::Uuid;

use crate::kernel::tables::{Door, Local};
use crate::service::claims::kept_back;
use pg::clock::Moment;
use pg::query::{Record, record};
use pg::spi::{Connection, Row};

/// An existing claim.
#[derive(Clone)]
pub struct Actual {
    pub uuid: Uuid,
    pub claim: Claim<'static>,
    pub cell_id: i64,
    pub status: i16,
    pub leased: bool,
    pub recent: bool,
    /// The cell at the other end of the transfer that holds it, if any.
    pub other_cell_id: Option<i64>,
    /// The name is kept back, and no claim.
    pub kept: Option<KeptBack>,
}

impl Actual {
    /// Returns the state of the claim for a cell that expects none.
    pub fn state_for(&self, cell_id: i64) -> ClaimState {
        let (own, reserved) = (self.cell_id == cell_id, self.cell_id == NOBODY);
        let in_transfer = self.other_cell_id == Some(cell_id);
        let kept = self.kept.map(|kept| kept.for_destroy(cell_id));
        ClaimState { own, reserved, leased: self.leased, recent: self.recent, in_transfer, kept }
    }

    /// Returns the state of the claim for a cell that expects it.
    pub fn state_for_claim(&self, by: &Asking) -> ClaimState {
        let kept = self.kept.map(|kept| kept.for_create(&self.claim.subject, by));
        ClaimState { kept, ..self.state_for(by.cell_id) }
    }

    /// Returns whether the name was kept back, and everybody can have it now.
    pub fn is_over(&self, now: Moment) -> bool {
        self.kept.is_some_and(|kept| kept.is_over(now.0) && kept.reclaiming_cell.is_none())
    }
}

record! {
    /// A claim with the cell that it is at.
    struct ActualRow {
        uuid: Uuid,
        bucket_type: i32,
        bucket_value: String,
        subject_type: i32,
        subject_id: String,
        source_type: i32,
        source_id: String,
        cell_id: i64,
        status: i16,
        is_leased: bool,
        is_recent: bool,
        other_cell_id: Option<i64>,
        given_up_by: Option<i64>,
        available_at: Option<Moment>,
        reclaiming_cell: Option<i64>,
    }
}

impl Record for Actual {
    fn read(row: &Row) -> Self {
        let row = ActualRow::read(row);
        Actual {
            uuid: row.uuid,
            claim: Claim {
                bucket: Bucket { bucket_type: row.bucket_type, value: row.bucket_value.into() },
                subject: Reference { type_id: row.subject_type, id: row.subject_id.into() },
                source: Reference { type_id: row.source_type, id: row.source_id.into() },
                display: None,
            },
            cell_id: row.cell_id,
            status: row.status,
            leased: row.status != 1 || row.is_leased,
            recent: row.is_recent,
            other_cell_id: row.other_cell_id,
            kept: kept_back(row.given_up_by, row.available_at, row.reclaiming_cell),
        }
    }
}

/// A range of the source ids of one source type of one cell.
pub struct Part<'r> {
    pub cell_id: i64,
    pub source_type: i32,
    pub range: &'r SourceRange,
}

record! {
    /// A claim with the columns of a digest. Types are ids.
    pub struct DigestRow {
        pub bucket_type: i32,
        pub bucket_value: String,
        pub subject_type: i32,
        pub subject_id: String,
        pub source_id: String,
    }
}

/// Claims as verification reads them.
pub trait VerificationTables: Sync {
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

    /// Holds one of the slots for verification for a cell, or holds it for longer. Returns `false` if `limit` other cells hold one;
    /// 0 means no limit. For 0 seconds it gives the slot back.
    fn hold_slot(&self, connection: &Connection, cell_id: i64, seconds: i32, limit: i64) -> bool;
}

/// Where the claims and the slots for verification are.
pub static VERIFICATION_TABLES: Door<dyn VerificationTables> = Door::local(&Local);
