//! Claims names in this database, which is the service's, for the current transaction.

use uuid::Uuid;

use crate::error::{CellError, ClaimsError};
use crate::pg::libpq::RemoteError;
use crate::pg::spi::Connection;
use crate::service::lease::here::{self, Here};
use crate::tables::Tables;

/// Claims and gives up the names of two JSON lists of records. Returns conflicts in the form in which a service answers with them.
pub fn claim(
    tables: &dyn Tables,
    connection: &Connection,
    cell_id: i64,
    lease: Uuid,
    creates: &str,
    destroys: &str,
) -> Result<(), ClaimsError> {
    here::claim(tables, connection, &Here { cell_id, lease, creates, destroys }).map_err(as_answered)
}

/// Returns conflicts as a service's error, and other errors as they are.
fn as_answered(error: ClaimsError) -> ClaimsError {
    let ClaimsError::Conflicts { .. } = &error else { return error };
    CellError::Refused(RemoteError::from(error)).into()
}
