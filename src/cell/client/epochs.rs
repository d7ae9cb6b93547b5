//! Calls that present and adopt epochs.

use std::time::Duration;

use claims_model::epoch::StoredEpoch;

use super::Service;
use super::parameters::{number, text};
use super::question::Question;
use crate::error::ClaimsError;
use crate::pg::libpq::Expected;

const PRESENT: &str =
    "SELECT claims.present_epoch($1::pg_catalog.int8, $2::pg_catalog.int8, $3::pg_catalog.int8, $4::pg_catalog.text)";

impl Service<'_> {
    /// Presents an epoch. Raises an error if another database acts as the cell, unless `adopt_because` gives a reason to take over.
    pub fn present_epoch(
        &self,
        cell_id: i64,
        presented: StoredEpoch,
        adopt_because: Option<&str>,
        timeout: Duration,
    ) -> Result<(), ClaimsError> {
        let StoredEpoch { epoch, predecessor } = presented;
        let values = [number(cell_id), number(epoch), predecessor.and_then(number), adopt_because.and_then(text)];
        let question = Question { text: PRESENT, values: &values, expected: Expected::one_row(1) };
        self.ask(question, timeout, |answer| answer.only(|_| Ok(())))
    }
}
