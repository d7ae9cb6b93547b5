//! Admission: what the service does for a cell at the moment. Everything that is asked here lies in the session's copy of
//! the catalog, which is out of date no longer than until the COMMIT that changed it.

use claims_model::mode::Need;

use crate::error::{AdmissionError, ClaimsError};
use crate::pg::spi::Connection;
use crate::store::catalog::{self, Catalog};

/// Raises where the mode of the cell, or of everybody, does not allow what a call needs.
pub fn admit(catalog: &Catalog, cell_id: i64, need: Need) -> Result<(), ClaimsError> {
    let strictest = catalog
        .modes
        .iter()
        .filter(|setting| setting.cell_id.is_none_or(|of| of == cell_id))
        .max_by_key(|setting| (setting.mode, setting.cell_id.is_none()));
    match strictest {
        Some(setting) if !setting.mode.allows(need) => Err(AdmissionError::Mode {
            mode: setting.mode,
            of_cell: setting.cell_id,
            reason: setting.reason.clone(),
            since: setting.since,
            role: setting.role.clone(),
        }
        .into()),
        _ => Ok(()),
    }
}

/// The same once more, for a call that may have waited since: what was set meanwhile counts.
pub fn admit_still(connection: &Connection, cell_id: i64, need: Need) -> Result<(), ClaimsError> {
    admit(&catalog::current(connection), cell_id, need)
}

/// For calls that are no cell's: only what is set for everybody counts.
pub fn admit_everybody(catalog: &Catalog, need: Need) -> Result<(), ClaimsError> {
    // No cell has this number.
    admit(catalog, i64::MIN, need)
}
