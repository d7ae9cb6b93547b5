//! Recovery of leases that were left outstanding: the verdict on each (`judge_leases`), and one pass over all (`reconcile`).

mod explain;
pub mod ground;
pub mod judge;
pub mod left;
pub mod reconcile;

use crate::error::{CellError, ClaimsError};

/// Recovery reports a service that does not answer as one that cannot be reached.
pub fn unreachable(error: ClaimsError) -> ClaimsError {
    match error {
        ClaimsError::Cell(CellError::ServiceSilent { server, timeout }) => {
            let detail = format!("It did not answer for {} seconds.", timeout.as_secs());
            CellError::ServiceUnreachable { server, detail }.into()
        }
        other => other,
    }
}
