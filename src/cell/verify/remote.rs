//! The questions that a verifying cell asks the service.

use std::time::Duration;

use claims_model::digest::Digest;
use claims_model::source_range::SourceRange;
use pgrx::datum::Interval;
use uuid::Uuid;

use crate::cell::client::Service;
use crate::cell::client::records::{Report, Span};
use crate::error::ClaimsError;
use crate::pg::roles;
use crate::pg::spi::Connection;
use crate::store::cell::expected;

/// How long one question may take. The service gives up a little earlier than the cell does, so that nothing is
/// corrected there after the cell has let go of its rows.
const PATIENCE: Duration = Duration::from_secs(60);
const PATIENCE_FOR_CORRECTIONS: Duration = Duration::from_secs(5);
const EARLIER: Duration = Duration::from_millis(500);

/// The claims of one cell and source type, at the service.
pub struct Remote<'s, 'c> {
    service: &'s Service<'c>,
    cell_id: i64,
    source_type: &'s str,
    recent: Interval,
}

impl<'s, 'c> Remote<'s, 'c> {
    pub fn new(
        connection: &Connection,
        service: &'s Service<'c>,
        cell_id: i64,
        source_type: &'s str,
        recent: Interval,
    ) -> Result<Self, ClaimsError> {
        // Conditions and casts of the tables are their owners' code.
        if expected::owners(connection).into_iter().any(|owner| !roles::is_admin(owner)) {
            service.hide();
        }
        let remote = Remote { service, cell_id, source_type, recent };
        remote.limit(PATIENCE)?;
        Ok(remote)
    }

    pub fn digest(&self, range: &SourceRange) -> Result<Digest, ClaimsError> {
        self.service.digest_records(&self.span(range), PATIENCE)
    }

    /// The source id up to which there are `records` claims in the range; `None`: there are not so many.
    pub fn end_of(&self, range: &SourceRange, records: i64) -> Result<Option<String>, ClaimsError> {
        self.service.nth_source(&self.span(range), records, PATIENCE)
    }

    /// Compares a range with a JSON list of what is expected there.
    pub fn compare(&self, range: &SourceRange, expected: &str) -> Result<Vec<Report>, ClaimsError> {
        self.service.verify_records(&self.span(range), expected, self.recent, PATIENCE)
    }

    /// Puts right what is expected, and destroys the extra claims that are named. Beforehand, while nothing is held here,
    /// [`Remote::prepare_to_correct`].
    pub fn correct(&self, range: &SourceRange, expected: &str, extra: &[Uuid]) -> Result<Vec<Report>, ClaimsError> {
        self.service.correct_records(&self.span(range), expected, self.recent, extra, PATIENCE_FOR_CORRECTIONS)
    }

    pub fn prepare_to_correct(&self) -> Result<(), ClaimsError> {
        self.limit(PATIENCE_FOR_CORRECTIONS)
    }

    pub fn corrected(&self) -> Result<(), ClaimsError> {
        self.limit(PATIENCE)
    }

    /// Has the service give up by itself.
    fn limit(&self, patience: Duration) -> Result<(), ClaimsError> {
        self.service.limit_statements(patience - EARLIER, patience)
    }

    fn span<'a>(&'a self, range: &'a SourceRange) -> Span<'a> {
        Span { cell_id: self.cell_id, source_type: self.source_type, range }
    }
}
