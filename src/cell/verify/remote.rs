//! The calls of a verifying cell to the service.

use std::time::{Duration, Instant};

use claims_model::digest::Digest;
use claims_model::rate;
use claims_model::source_range::SourceRange;
use pgrx::datum::Interval;
use uuid::Uuid;

use super::expected::{ExpectedClaim, list_json};
use crate::cell::client::Service;
use crate::cell::client::naming::RequiredNaming;
use crate::cell::client::records::{Report, Span};
use crate::kernel::error::ClaimsError;
use pg::wait;

/// Timeout of a correction, whose rows are locked meanwhile.
const CORRECTION_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause between two attempts to correct at the cell's rate.
const RATE_INTERVAL: Duration = Duration::from_millis(100);

/// The claims of one cell and source type, at the service.
pub struct Remote<'s, 'c> {
    service: &'s Service<'c>,
    source_type: &'s str,
    recent: Interval,
    naming: RequiredNaming,
    answer_timeout: Duration,
}

/// The answer to a correction.
#[derive(Default)]
pub struct CorrectedClaims {
    pub reports: Vec<Report>,
    /// Number of the expected claims, and of the extra ones, that were corrected, from the first on.
    pub expected: usize,
    pub extra: usize,
}

impl<'s, 'c> Remote<'s, 'c> {
    pub fn new(
        service: &'s Service<'c>,
        source_type: &'s str,
        recent: Interval,
        naming: RequiredNaming,
        answer_timeout: Duration,
    ) -> Self {
        Remote { service, source_type, recent, naming, answer_timeout }
    }

    pub fn cell_id(&self) -> i64 {
        self.service.cell_id
    }

    pub fn digest(&self, range: &SourceRange) -> Result<Digest, ClaimsError> {
        self.service.digest_records(&self.span(range), self.answer_timeout)
    }

    /// Returns the source id up to which the range has `records` claims, or `None` if there are fewer.
    pub fn end_of(&self, range: &SourceRange, records: i64) -> Result<Option<String>, ClaimsError> {
        self.service.nth_source(&self.span(range), records, self.answer_timeout)
    }

    /// Compares a range with a JSON list of the expected claims.
    pub fn compare(&self, range: &SourceRange, expected: &str) -> Result<Vec<Report>, ClaimsError> {
        self.service.verify_records(&self.span(range), expected, None, self.answer_timeout)
    }

    /// Has the service make the expected claims, and destroy the extra ones. If a limit of the cell forbids that in one call, it destroys
    /// and makes them in portions, at the rate of the cell. Returns also how many of both it has done: the time may be too short.
    pub fn correct(
        &self,
        range: &SourceRange,
        expected: &[ExpectedClaim],
        extra: &[Uuid],
    ) -> Result<CorrectedClaims, ClaimsError> {
        match self.correct_once(range, &list_json(expected)?, extra) {
            Err(error) if error.is_remote_limit() => {}
            answer => {
                let (expected, extra) = (expected.len(), extra.len());
                return Ok(CorrectedClaims { reports: answer?, expected, extra });
            }
        }
        let most = self.service.batch_limit(CORRECTION_TIMEOUT)?.clamp(1, rate::RECORDS as usize);
        let deadline = Instant::now() + CORRECTION_TIMEOUT;
        let portions = extra.chunks(most).map(|extra| (&expected[..0], extra));
        let portions = portions.chain(expected.chunks(most).map(|expected| (expected, &extra[..0])));
        let mut done = CorrectedClaims::default();
        for (expected, extra) in portions {
            let Some(answer) = self.correct_within(deadline, range, &list_json(expected)?, extra)? else { break };
            done.reports.extend(answer);
            done.expected += expected.len();
            done.extra += extra.len();
        }
        Ok(done)
    }

    /// Corrects a portion as soon as the cell's rate allows it. `None`: it did not until the deadline.
    fn correct_within(
        &self,
        deadline: Instant,
        range: &SourceRange,
        expected: &str,
        extra: &[Uuid],
    ) -> Result<Option<Vec<Report>>, ClaimsError> {
        loop {
            match self.correct_once(range, expected, extra) {
                Err(error) if error.is_remote_limit() && Instant::now() < deadline => wait::sleep(RATE_INTERVAL),
                Err(error) if error.is_remote_limit() => return Ok(None),
                answer => return answer.map(Some),
            }
        }
    }

    fn correct_once(&self, range: &SourceRange, expected: &str, extra: &[Uuid]) -> Result<Vec<Report>, ClaimsError> {
        self.service.verify_records(&self.span(range), expected, Some(extra), CORRECTION_TIMEOUT)
    }

    fn span<'a>(&'a self, range: &'a SourceRange) -> Span<'a> {
        Span { source_type: self.source_type, range, naming: &self.naming, recent: self.recent }
    }
}
