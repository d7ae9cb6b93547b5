//! Calls that present and adopt epochs, and the epoch that each save presents.

use std::time::Duration;

use claims_model::epoch::StoredEpoch;

use super::Service;
use super::parameters::{Parameter, number, text};
use super::question::Question;
use crate::error::{CellError, ClaimsError};
use crate::pg::libpq::Expected;
use crate::store::cell::epochs;

/// The epoch that a call presents, as this database had committed it. `None`: this database has none yet.
pub type Presented = Option<StoredEpoch>;

/// Number of attempts: a pass of this database may replace the epoch during each of them.
const ATTEMPTS: usize = 5;

/// Returns the parameters of `claims.acting_cell()` after the cell.
pub(super) fn pair(presented: Presented) -> [Parameter; 2] {
    [
        presented.and_then(|stored| number(stored.epoch)),
        presented.and_then(|stored| stored.predecessor).and_then(number),
    ]
}

/// Makes a call with the epoch that this database has committed, in the current transaction. If the service refuses it, and this
/// database has another epoch now, a pass has presented that one meanwhile: the call is repeated.
pub(super) fn presenting<T>(
    cell_id: i64,
    call: impl Fn(Presented) -> Result<T, ClaimsError>,
) -> Result<T, ClaimsError> {
    let mut presented = epochs::committed(cell_id);
    for _ in 1..ATTEMPTS {
        let result = call(presented);
        if !result.as_ref().is_err_and(may_be_outdated) {
            return result;
        }
        match epochs::committed(cell_id) {
            unchanged if unchanged == presented => return result,
            newer => presented = newer,
        }
    }
    call(presented)
}

/// Returns whether an error can be that of `claims.acting_cell()`.
pub fn may_be_outdated(error: &ClaimsError) -> bool {
    matches!(error, ClaimsError::Cell(CellError::Refused(error)) if error.is_wrong_state())
}

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
