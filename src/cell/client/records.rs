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
use super::answer::wrong;
use super::naming::RequiredNaming;
use super::question::{Json, interval, question};
use crate::kernel::catalog;
use crate::kernel::error::ClaimsError;
use pg::libpq::Mismatch;

/// A range of a cell's claims, and how it is compared.
pub struct Span<'s> {
    pub source_type: &'s str,
    pub range: &'s SourceRange,
    pub naming: &'s RequiredNaming,
    /// Claims that have changed within this time are not corrected.
    pub recent: Interval,
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
    pub fn digest_records(&self, span: &Span, timeout: Duration) -> Result<Digest, ClaimsError> {
        let Span { source_type, range: SourceRange { above, up_to }, naming, .. } = *span;
        let digest = question! {
            "SELECT records, pg_catalog.encode(digest, 'hex')
               FROM claims.require_naming({naming}), claims.digest_records({cell_id}, {source_type}, {above}, {up_to})",
            cell_id = self.cell_id, source_type, above, up_to, naming
        };
        self.ask_one(digest.limited(), timeout, |(records, hex): (i64, String)| {
            let bytes = (0..hex.len() / 2)
                .map(|at| hex.get(2 * at..2 * at + 2).and_then(|two| u8::from_str_radix(two, 16).ok()));
            let bytes: Option<Vec<u8>> = bytes.collect();
            bytes.and_then(|bytes| Digest::from_parts(records, &bytes)).ok_or_else(|| wrong(hex))
        })
    }

    /// Returns the source id of the `records`-th claim of a range, or `None` if there are fewer.
    pub fn nth_source(&self, span: &Span, records: i64, timeout: Duration) -> Result<Option<String>, ClaimsError> {
        let Span { source_type, range: SourceRange { above, up_to }, .. } = *span;
        let nth = question! {
            "SELECT source_id
               FROM claims.list_records({cell_id}, {source_type}, NULL, {records}, {above}, {up_to})
             OFFSET {records} OPERATOR(pg_catalog.-) 1",
            cell_id = self.cell_id, source_type, above, up_to, records = i32::try_from(records).unwrap_or(i32::MAX)
        };
        self.ask_rows(nth.limited(), 0..=1, timeout, |(id,): (String,)| Ok(id)).map(|mut ids| ids.pop())
    }

    /// Compares a range with a JSON list of the expected claims. With `corrected` it corrects the expected claims and destroys these claims.
    pub fn verify_records(
        &self,
        span: &Span,
        expected: &str,
        corrected: Option<&[Uuid]>,
        timeout: Duration,
    ) -> Result<Vec<Report>, ClaimsError> {
        let Span { source_type, range: SourceRange { above, up_to }, naming, recent } = *span;
        let (months, days, seconds) = interval(recent);
        let verify = question! {
            "SELECT discrepancy, bucket_type, bucket_value,
                    pg_catalog.jsonb_extract_path_text(actual, 'uuid'),
                    pg_catalog.jsonb_extract_path_text(actual, 'source', 'type'),
                    pg_catalog.jsonb_extract_path_text(actual, 'source', 'rails_primary_key_id'), outcome,
                    pg_catalog.jsonb_extract_path_text(actual, 'cell_id')
               FROM claims.require_naming({naming}),
                    claims.verify_records({cell_id}, {source_type}, {above}, {up_to}, {expected},
                        pg_catalog.make_interval(months => {months}, days => {days}, secs => {seconds}), {correct}, {extra})",
            cell_id = self.cell_id, source_type, above, up_to, expected = Json(expected), months, days, seconds,
            correct = corrected.is_some(), extra = corrected, naming
        };
        // The service compares at most this many claims on each side.
        self.ask_rows(verify.attributed(), 0..=2 * MAX_COMPARED, timeout, report)
    }
}

type ReportRow =
    (String, Option<String>, String, Option<Uuid>, Option<String>, Option<String>, Option<String>, Option<i64>);

/// Converts a row of the service. The service has its own names of types; this database stores their first names.
fn report(row: ReportRow) -> Result<Report, Mismatch> {
    let (discrepancy, bucket_type, bucket_value, uuid, source_type, source_id, outcome, holder) = row;
    let catalog = catalog::current_without_spi();
    let own = |kind, name: &str| catalog.types.of(kind).first_name_of(name).unwrap_or(name).to_owned();
    Ok(Report {
        discrepancy: Discrepancy::named(&discrepancy).ok_or_else(|| wrong(discrepancy))?,
        bucket_type: own(Kind::Bucket, &bucket_type.unwrap_or_default()),
        bucket_value,
        uuid,
        source: source_type.map(|name| own(Kind::Source, &name)).zip(source_id),
        outcome: outcome.map(|name| Outcome::named(&name).ok_or_else(|| wrong(name))).transpose()?,
        holder,
    })
}
