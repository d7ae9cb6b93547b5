//! The epoch that each save presents, with which the service makes sure that only one database acts as a cell.

use claims_model::epoch::StoredEpoch;

use super::parameters::{Parameter, number};
use crate::error::{CellError, ClaimsError};
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
