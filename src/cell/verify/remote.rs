//! The questions that a verifying cell asks the service.

use std::time::Duration;

use claims_model::digest::Digest;
use claims_model::source_range::SourceRange;
use pgrx::datum::Interval;
use uuid::Uuid;

use crate::cell::client::Service;
use crate::cell::client::naming::RequiredNaming;
use crate::cell::client::records::{Report, Span};
use crate::error::ClaimsError;

/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(60);
const PATIENCE_FOR_CORRECTIONS: Duration = Duration::from_secs(5);

/// The claims of one cell and source type, at the service.
pub struct Remote<'s, 'c> {
    service: &'s Service<'c>,
    cell_id: i64,
    source_type: &'s str,
    recent: Interval,
    naming: RequiredNaming,
    patience: Duration,
}

impl<'s, 'c> Remote<'s, 'c> {
    pub fn new(
        service: &'s Service<'c>,
        cell_id: i64,
        source_type: &'s str,
        recent: Interval,
        naming: RequiredNaming,
    ) -> Self {
        Remote { service, cell_id, source_type, recent, naming, patience: PATIENCE }
    }

    /// With another limit for one question, for where a transaction should not be open for as long.
    pub fn within(self, patience: Duration) -> Self {
        Remote { patience, ..self }
    }

    pub fn digest(&self, range: &SourceRange) -> Result<Digest, ClaimsError> {
        self.service.digest_records(&self.span(range), &self.naming, self.patience)
    }

    /// The source id up to which there are `records` claims in the range; `None`: there are not so many.
    pub fn end_of(&self, range: &SourceRange, records: i64) -> Result<Option<String>, ClaimsError> {
        self.service.nth_source(&self.span(range), records, self.patience)
    }

    /// Compares a range with a JSON list of what is expected there.
    pub fn compare(&self, range: &SourceRange, expected: &str) -> Result<Vec<Report>, ClaimsError> {
        self.service.verify_records((&self.span(range), &self.naming), expected, self.recent, self.patience)
    }

    /// Puts right what is expected, and destroys the extra claims that are named.
    pub fn correct(&self, range: &SourceRange, expected: &str, extra: &[Uuid]) -> Result<Vec<Report>, ClaimsError> {
        self.service.correct_records(
            (&self.span(range), &self.naming),
            expected,
            self.recent,
            extra,
            PATIENCE_FOR_CORRECTIONS,
        )
    }

    fn span<'a>(&'a self, range: &'a SourceRange) -> Span<'a> {
        Span { cell_id: self.cell_id, source_type: self.source_type, range }
    }
}
