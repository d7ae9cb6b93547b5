//! The calls of a verifying cell to the service.

use std::time::Duration;

use claims_model::digest::Digest;
use claims_model::source_range::SourceRange;
use pgrx::datum::Interval;
use uuid::Uuid;

use crate::cell::client::Service;
use crate::cell::client::naming::RequiredNaming;
use crate::cell::client::records::{Report, Span};
use crate::error::ClaimsError;

/// Timeout of a call to the service.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
const CORRECTION_TIMEOUT: Duration = Duration::from_secs(5);

/// The claims of one cell and source type, at the service.
pub struct Remote<'s, 'c> {
    service: &'s Service<'c>,
    cell_id: i64,
    source_type: &'s str,
    recent: Interval,
    naming: RequiredNaming,
    answer_timeout: Duration,
}

impl<'s, 'c> Remote<'s, 'c> {
    pub fn new(
        service: &'s Service<'c>,
        cell_id: i64,
        source_type: &'s str,
        recent: Interval,
        naming: RequiredNaming,
    ) -> Self {
        Remote { service, cell_id, source_type, recent, naming, answer_timeout: ANSWER_TIMEOUT }
    }

    pub fn cell_id(&self) -> i64 {
        self.cell_id
    }

    /// Sets another timeout for calls, where a transaction should not stay open for so long.
    pub fn with_answer_timeout(self, answer_timeout: Duration) -> Self {
        Remote { answer_timeout, ..self }
    }

    pub fn digest(&self, range: &SourceRange) -> Result<Digest, ClaimsError> {
        self.service.digest_records(&self.span(range), &self.naming, self.answer_timeout)
    }

    /// Returns the source id up to which the range has `records` claims, or `None` if there are fewer.
    pub fn end_of(&self, range: &SourceRange, records: i64) -> Result<Option<String>, ClaimsError> {
        self.service.nth_source(&self.span(range), records, self.answer_timeout)
    }

    /// Compares a range with a JSON list of the expected claims.
    pub fn compare(&self, range: &SourceRange, expected: &str) -> Result<Vec<Report>, ClaimsError> {
        self.service.verify_records((&self.span(range), &self.naming), expected, self.recent, self.answer_timeout)
    }

    /// Has the service make the expected claims, and destroy the extra ones.
    pub fn correct(&self, range: &SourceRange, expected: &str, extra: &[Uuid]) -> Result<Vec<Report>, ClaimsError> {
        self.service.correct_records(
            (&self.span(range), &self.naming),
            expected,
            self.recent,
            extra,
            CORRECTION_TIMEOUT,
        )
    }

    fn span<'a>(&'a self, range: &'a SourceRange) -> Span<'a> {
        Span { cell_id: self.cell_id, source_type: self.source_type, range }
    }
}
