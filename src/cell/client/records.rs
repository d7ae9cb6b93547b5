//! Calls for verification about the claims of a source type.

use std::time::Duration;

use claims_model::Kind;
use claims_model::digest::Digest;
use claims_model::limits::MAX_COMPARED;
use claims_model::source_range::SourceRange;
use claims_model::verify::{Discrepancy, Outcome};
use pgrx::datum::Interval;
use uuid::Uuid;

use super::Service;
use super::answer::AnswerRow;
use super::naming::RequiredNaming;
use super::parameters::{Parameter, interval, number, text, uuids};
use super::question::Question;
use crate::error::ClaimsError;
use crate::store::catalog;
use pg::libpq::{Expected, Mismatch};

/// The service cancels its statement this much earlier than the cell gives up, so that it corrects nothing after the cell has released
/// its row locks.
const CANCEL_MARGIN: Duration = Duration::from_millis(500);

const DIGEST: &str = "SELECT records, pg_catalog.encode(digest, 'hex')
             FROM claims.require_naming($5::pg_catalog.text, $6::pg_catalog.text[], $7::pg_catalog.text[]),
                  claims.digest_records($1::pg_catalog.int8, $2::pg_catalog.text, $3::pg_catalog.text, $4::pg_catalog.text)";
const NTH: &str = "SELECT source_id
             FROM claims.list_records($1::pg_catalog.int8, $2::pg_catalog.text, NULL, $5::pg_catalog.int4, $3::pg_catalog.text,
                      $4::pg_catalog.text)
           OFFSET $5::pg_catalog.int4 OPERATOR(pg_catalog.-) 1";
const VERIFY: &str = "SELECT discrepancy, bucket_type, bucket_value,
                  pg_catalog.jsonb_extract_path_text(actual, 'uuid'),
                  pg_catalog.jsonb_extract_path_text(actual, 'source', 'type'),
                  pg_catalog.jsonb_extract_path_text(actual, 'source', 'rails_primary_key_id'), outcome,
                  pg_catalog.jsonb_extract_path_text(actual, 'cell_id')
             FROM claims.require_naming($11::pg_catalog.text, $12::pg_catalog.text[], $13::pg_catalog.text[]),
                  claims.verify_records($1::pg_catalog.int8, $2::pg_catalog.text, $3::pg_catalog.text, $4::pg_catalog.text,
                      $5::pg_catalog.jsonb,
                      pg_catalog.make_interval(months => $6::pg_catalog.int4, days => $7::pg_catalog.int4, secs => $8::pg_catalog.float8),
                      $9::pg_catalog.bool, $10::pg_catalog.uuid[])";

/// A range of a cell's claims.
pub struct Span<'s> {
    pub cell_id: i64,
    pub source_type: &'s str,
    pub range: &'s SourceRange,
}

impl Span<'_> {
    fn values(&self) -> [Parameter; 4] {
        let SourceRange { above, up_to } = self.range;
        [number(self.cell_id), text(self.source_type), above.clone(), up_to.clone()]
    }
}

/// A discrepancy that the service reports.
pub struct Report {
    pub discrepancy: Discrepancy,
    pub bucket_type: String,
    pub bucket_value: String,
    /// The uuid of the existing claim.
    pub uuid: Option<Uuid>,
    /// The type and the id of its source.
    pub source: Option<(String, String)>,
    pub outcome: Option<Outcome>,
    /// The cell that owns the claim, or the claim on a confusable name.
    pub holder: Option<i64>,
}

impl Service<'_> {
    pub fn digest_records(
        &self,
        span: &Span,
        naming: &RequiredNaming,
        timeout: Duration,
    ) -> Result<Digest, ClaimsError> {
        let digest = |row: &AnswerRow| {
            let hex = row.must(2)?;
            let bytes = (0..hex.len() / 2)
                .map(|at| hex.get(2 * at..2 * at + 2).and_then(|two| u8::from_str_radix(two, 16).ok()));
            let bytes: Option<Vec<u8>> = bytes.collect();
            let records = row.number(1)?;
            bytes.and_then(|bytes| Digest::from_parts(records, &bytes)).ok_or_else(|| Mismatch::Value(hex.to_owned()))
        };
        let values: Vec<_> = span.values().into_iter().chain(naming.values()).collect();
        let question = Question { text: DIGEST, values: &values, expected: Expected::one_row(2) };
        self.ask_within(timeout - CANCEL_MARGIN, question, timeout, |answer| answer.only(digest))
    }

    /// Returns the source id of the `records`-th claim of a range, or `None` if there are fewer.
    pub fn nth_source(&self, span: &Span, records: i64, timeout: Duration) -> Result<Option<String>, ClaimsError> {
        let [cell_id, source_type, above, up_to] = span.values();
        let values = [cell_id, source_type, above, up_to, number(records)];
        let question = Question { text: NTH, values: &values, expected: Expected::rows(0..=1, 1) };
        self.ask_within(timeout - CANCEL_MARGIN, question, timeout, |answer| {
            answer.first(|row| Ok(row.must(1)?.to_owned()))
        })
    }

    /// Compares a range with a JSON list of the expected claims.
    pub fn verify_records(
        &self,
        (span, naming): (&Span, &RequiredNaming),
        expected: &str,
        recent: Interval,
        timeout: Duration,
    ) -> Result<Vec<Report>, ClaimsError> {
        self.verify((span, naming), expected, recent, [text("false"), None], timeout)
    }

    /// Like [`Service::verify_records`], and corrects the expected claims and destroys the claims in `extra`.
    pub fn correct_records(
        &self,
        (span, naming): (&Span, &RequiredNaming),
        expected: &str,
        recent: Interval,
        extra: &[Uuid],
        timeout: Duration,
    ) -> Result<Vec<Report>, ClaimsError> {
        self.verify((span, naming), expected, recent, [text("true"), uuids(extra)], timeout)
    }

    fn verify(
        &self,
        (span, naming): (&Span, &RequiredNaming),
        expected: &str,
        recent: Interval,
        [correct, extra]: [Parameter; 2],
        timeout: Duration,
    ) -> Result<Vec<Report>, ClaimsError> {
        let [cell_id, source_type, above, up_to] = span.values();
        let [months, days, seconds] = interval(recent);
        let [unicode, types, profiles] = naming.values();
        let range = [cell_id, source_type, above, up_to];
        let rest = [text(expected), months, days, seconds, correct, extra, unicode, types, profiles];
        let values: Vec<_> = range.into_iter().chain(rest).collect();
        // The service compares at most this many claims on each side.
        let question = Question { text: VERIFY, values: &values, expected: Expected::rows(0..=2 * MAX_COMPARED, 8) };
        self.ask_within(timeout - CANCEL_MARGIN, question, timeout, |answer| answer.map(report))
    }
}

/// Converts a row of the service. The service has its own names of types; this database stores their first names.
fn report(row: &AnswerRow) -> Result<Report, Mismatch> {
    let discrepancy = row.must(1)?;
    let unknown = |name: &str| Mismatch::Value(name.to_owned());
    let catalog = catalog::current_without_spi();
    let own = |kind, name: &str| catalog.types.of(kind).first_name_of(name).unwrap_or(name).to_owned();
    Ok(Report {
        discrepancy: Discrepancy::named(discrepancy).ok_or_else(|| unknown(discrepancy))?,
        bucket_type: own(Kind::Bucket, row.text(2).unwrap_or_default()),
        bucket_value: row.must(3)?.to_owned(),
        uuid: row.uuid_or_null(4)?,
        source: row.text(5).map(|name| own(Kind::Source, name)).zip(row.text(6).map(str::to_owned)),
        outcome: row.text(7).map(|name| Outcome::named(name).ok_or_else(|| unknown(name))).transpose()?,
        holder: row.text(8).map(|_| row.number(8)).transpose()?,
    })
}
