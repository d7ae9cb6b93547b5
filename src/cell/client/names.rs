//! Calls that look up names.

use std::collections::HashMap;
use std::time::Duration;

use uuid::Uuid;

use super::Service;
use super::answer::{AnswerColumn, one_of, row, wrong};
use super::question::{Json, question};
use crate::kernel::error::ClaimsError;
use crate::service::verify::holder::{self, FormerOwner};
use pg::clock::Moment;
use pg::libpq::Mismatch;

/// Why a name cannot be claimed.
const REASONS: [&str; 5] = ["taken", "leased", "reserved", "quarantined", "confusable"];
/// The service takes no more buckets in one call.
const MAX_RECORDS: usize = 10_000;
const STATUS_NAMES: [&str; 5] = ["ACTIVE", "LEASE_CREATING", "LEASE_DESTROYING", "TRANSFERRING", "UNSPECIFIED"];

/// The claim, or the reservation, that prevents a cell from claiming a name.
pub struct NameHolder {
    pub cell_id: Option<i64>,
    pub source_type: Option<String>,
    pub source_id: Option<String>,
}

impl From<holder::FoundHolder> for NameHolder {
    fn from(holder::FoundHolder { cell_id, source_type, source_id, .. }: holder::FoundHolder) -> Self {
        NameHolder { cell_id, source_type, source_id }
    }
}

row! {
    /// A claim, as get_records() returns it.
    pub struct Record {
        pub uuid: Uuid,
        pub bucket_type: Option<String>,
        pub bucket_value: String,
        pub subject_type: Option<String>,
        pub subject_id: String,
        pub source_type: Option<String>,
        pub source_id: String,
        pub cell_id: i64,
        pub status: Status,
        pub lease_uuid: Option<Uuid>,
        pub created_at: Moment,
        pub updated_at: Moment,
        pub cell_name: Option<String>,
        pub cell_address: Option<String>,
        pub display_value: Option<String>,
        /// The position among the buckets asked for, from 1.
        pub ordinal: i32,
    }
}

/// The name of a claim's status.
pub struct Status(pub String);

impl AnswerColumn for Status {
    fn read(name: Option<String>) -> Result<Self, Mismatch> {
        Ok(Status(one_of(name, &STATUS_NAMES)?.unwrap_or_else(|| "UNSPECIFIED".to_owned())))
    }
}

impl Service<'_> {
    /// Returns the holders of names, by the positions of the names. There is none for a name that is free.
    pub fn name_holders(
        &self,
        bucket_type: &str,
        names: Vec<&str>,
        former: Option<&FormerOwner>,
        timeout: Duration,
    ) -> Result<HashMap<usize, NameHolder>, ClaimsError> {
        type Row = (i32, Option<String>, Option<i64>, Option<String>, Option<String>);
        let count = names.len();
        let holders = question! {
            prepared c"claims_holders":
            "SELECT ordinal, reason, holder_cell_id, source_type, source_id
               FROM claims.name_holders({bucket_type}, {names}, {cell_id}, {subject_type}, {subject_id})",
            bucket_type, names, cell_id = former.map(|former| former.cell_id),
            subject_type = former.map(|former| former.subject_type.as_str()),
            subject_id = former.map(|former| former.subject_id.as_str())
        };
        let holders =
            self.ask_rows(holders, 0..=count, timeout, |(ordinal, reason, cell_id, source_type, source_id): Row| {
                one_of(reason, &REASONS)?;
                let position = usize::try_from(ordinal).ok().and_then(|ordinal| ordinal.checked_sub(1));
                let position = position.filter(|position| *position < count).ok_or_else(|| wrong(ordinal))?;
                Ok((position, NameHolder { cell_id, source_type, source_id }))
            });
        Ok(holders?.into_iter().collect())
    }

    /// Returns the claims on buckets, a JSON list. Times are sent as microseconds since 2000, because each server writes times by its own
    /// settings.
    pub fn records(&self, buckets: &str, timeout: Duration) -> Result<Vec<Record>, ClaimsError> {
        let records = question! {
            "SELECT uuid, bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, cell_id, status, lease_uuid,
                  ((EXTRACT(epoch FROM created_at) OPERATOR(pg_catalog.-) 946684800) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8,
                  ((EXTRACT(epoch FROM updated_at) OPERATOR(pg_catalog.-) 946684800) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8,
                  cell_name, cell_address, display_value, ordinal
             FROM claims.get_records({buckets})",
            buckets = Json(buckets)
        };
        self.ask_rows(records, 0..=MAX_RECORDS, timeout, |record: Record| {
            if !(1..=MAX_RECORDS).contains(&usize::try_from(record.ordinal).unwrap_or(0)) {
                return Err(wrong(record.ordinal));
            }
            Ok(record)
        })
    }
}
