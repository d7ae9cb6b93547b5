//! Claims names in this database, which is the service's, for the current transaction.

use claims_model::outgoing::Outgoing;

use crate::error::{CellError, ClaimsError};
use crate::kernel::call::Call;
use crate::service::lease::here;
use pg::libpq::RemoteError;

/// Claims and gives up the names of a batch. Returns conflicts in the form in which a service answers with them.
pub fn claim(call: &Call, cell_id: i64, outgoing: &Outgoing) -> Result<(), ClaimsError> {
    here::claim(call, cell_id, outgoing).map_err(as_answered)
}

/// Returns conflicts as a service's error, and other errors as they are.
fn as_answered(error: ClaimsError) -> ClaimsError {
    let ClaimsError::Conflicts { .. } = &error else { return error };
    CellError::Refused(RemoteError::from(error)).into()
}
