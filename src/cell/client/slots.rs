//! The call by which the worker holds a slot for verification.

use std::time::Duration;

use super::Service;
use super::parameters::number;
use super::question::Question;
use crate::error::ClaimsError;
use pg::libpq::Expected;

const HOLD: &str = "SELECT claims.hold_verification_slot($1::pg_catalog.int8, $2::pg_catalog.int4)";

impl Service<'_> {
    /// Holds a slot for verification, or holds it for longer. Returns `false` if the service has no free one. 0 seconds give it back.
    pub fn hold_verification_slot(&self, cell_id: i64, seconds: i64, timeout: Duration) -> Result<bool, ClaimsError> {
        let values = [number(cell_id), number(seconds)];
        let question = Question { text: HOLD, values: &values, expected: Expected::one_row(1) };
        self.ask(question, timeout, |answer| answer.only(|row| row.boolean(1)))
    }
}
