//! Calls that look up names.

use std::time::Duration;

use pgrx::pg_sys::{self, Oid};
use uuid::Uuid;

use super::Service;
use super::answer::AnswerRow;
use super::parameters::text;
use super::question::Question;
use crate::error::ClaimsError;
use crate::store::cell::availability::HolderHere;
use pg::clock::Moment;
use pg::libpq::{Expected, Mismatch};

const HOLDER: &str = "SELECT reason, holder_cell_id, source_type, source_id FROM claims.name_holder($1, $2)";
/// Why a name cannot be claimed.
const REASONS: [&str; 4] = ["taken", "leased", "reserved", "confusable"];
const HOLDER_TYPES: [Oid; 2] = [pg_sys::TEXTOID, pg_sys::TEXTOID];
/// Reads records. Times are microseconds since 2000, because each server writes times by its own settings.
const RECORDS: &str = "SELECT uuid, bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, cell_id, status, lease_uuid,
                  ((EXTRACT(epoch FROM created_at) OPERATOR(pg_catalog.-) 946684800) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8,
                  ((EXTRACT(epoch FROM updated_at) OPERATOR(pg_catalog.-) 946684800) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8,
                  cell_name, cell_address, display_value, ordinal
             FROM claims.get_records($1::pg_catalog.jsonb)";
/// The service takes no more buckets in one call.
const MAX_RECORDS: usize = 10_000;
const STATUS_NAMES: [&str; 5] = ["ACTIVE", "LEASE_CREATING", "LEASE_DESTROYING", "TRANSFERRING", "UNSPECIFIED"];

/// The claim, or the reservation, that prevents a cell from claiming a name.
pub struct Holder {
    pub cell_id: Option<i64>,
    pub source_type: Option<String>,
    pub source_id: Option<String>,
}

impl From<HolderHere> for Holder {
    fn from(HolderHere { cell_id, source_type, source_id }: HolderHere) -> Self {
        Holder { cell_id, source_type, source_id }
    }
}

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
    pub status: String,
    pub lease_uuid: Option<Uuid>,
    pub created_at: Moment,
    pub updated_at: Moment,
    pub cell_name: Option<String>,
    pub cell_address: Option<String>,
    pub display_value: Option<String>,
    /// The position among the buckets asked for, from 1.
    pub ordinal: i32,
}

/// Checks that a row answers one of the buckets of a call.
fn ordinal(answered: i64) -> Result<i32, Mismatch> {
    let within = |ordinal: &i32| (1..=MAX_RECORDS).contains(&usize::try_from(*ordinal).unwrap_or(0));
    i32::try_from(answered).ok().filter(within).ok_or_else(|| Mismatch::Value(answered.to_string()))
}

impl Service<'_> {
    /// Returns the holder of a name, or `None` if the name is free.
    pub fn holder(&self, bucket_type: &str, name: &str, timeout: Duration) -> Result<Option<Holder>, ClaimsError> {
        let holder = |row: &AnswerRow| {
            row.word_or_null(1, &REASONS)?;
            let own = |column| row.text(column).map(str::to_owned);
            let cell_id = row.text(2).map(|_| row.number(2)).transpose()?;
            Ok(Holder { cell_id, source_type: own(3), source_id: own(4) })
        };
        let values = [text(bucket_type), text(name)];
        let question = Question { text: HOLDER, values: &values, expected: Expected::rows(0..=1, 4) };
        self.run(&[question.frequent_command(c"claims_holder", &HOLDER_TYPES)], timeout, |answer| answer.first(holder))
    }

    /// Returns the claims on buckets, a JSON list.
    pub fn records(&self, buckets: String, timeout: Duration) -> Result<Vec<Record>, ClaimsError> {
        let own = |row: &AnswerRow, column| row.text(column).map(str::to_owned);
        let must = |row: &AnswerRow, column| row.must(column).map(str::to_owned);
        let record = |row: &AnswerRow| {
            Ok(Record {
                uuid: row.uuid(1)?,
                bucket_type: own(row, 2),
                bucket_value: must(row, 3)?,
                subject_type: own(row, 4),
                subject_id: must(row, 5)?,
                source_type: own(row, 6),
                source_id: must(row, 7)?,
                cell_id: row.number(8)?,
                status: row.word_or_null(9, &STATUS_NAMES)?.unwrap_or("UNSPECIFIED").to_owned(),
                lease_uuid: row.uuid_or_null(10)?,
                created_at: Moment(row.number(11)?),
                updated_at: Moment(row.number(12)?),
                cell_name: own(row, 13),
                cell_address: own(row, 14),
                display_value: own(row, 15),
                ordinal: ordinal(row.number(16)?)?,
            })
        };
        let question =
            Question { text: RECORDS, values: &[Some(buckets)], expected: Expected::rows(0..=MAX_RECORDS, 16) };
        self.ask(question, timeout, |answer| answer.map(record))
    }
}
