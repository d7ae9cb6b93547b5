//! Admission: what the service does for a cell at the moment. Everything that is asked here lies in the session's copy of
//! the catalog, which is out of date no longer than until the COMMIT that changed it.

use claims_model::mode::Need;
use uuid::Uuid;

use crate::error::{AdmissionError, ClaimsError};
use crate::pg::spi::{Connection, View};
use crate::service::{durability, floor, throttle};
use crate::store::catalog::{self, Catalog};
use crate::store::service::{leases, limits};

/// Raises where the mode of the cell, or of everybody, does not allow what a call needs, or where it could not be replicated.
pub fn admit(catalog: &Catalog, cell_id: i64, need: Need) -> Result<(), ClaimsError> {
    durability::require_standby()?;
    mode_allows(catalog, cell_id, need)
}

/// Raises where the mode of the cell, or of everybody, does not allow what a call needs.
pub fn mode_allows(catalog: &Catalog, cell_id: i64, need: Need) -> Result<(), ClaimsError> {
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

/// What a begin must pass before it is read: the mode, the cell's rate, and how many leases it has outstanding. The one that it
/// may repeat it has already.
pub fn admit_begin(
    connection: &Connection,
    catalog: &Catalog,
    cell_id: i64,
    given: Option<Uuid>,
) -> Result<(), ClaimsError> {
    admit(catalog, cell_id, Need::Begin)?;
    admit_fence(connection, catalog, cell_id)?;
    let Some(limit) = catalog.limits.get(&cell_id).and_then(|limits| limits.max_outstanding) else { return Ok(()) };
    let is_repeat = || given.is_some_and(|lease| !leases::known(connection, &[lease], View::Latest).is_empty());
    let outstanding = limits::outstanding(connection, cell_id, floor::of_caller(cell_id), limit.into());
    if outstanding >= limit.into() && !is_repeat() {
        return Err(AdmissionError::TooManyLeases { cell_id, limit }.into());
    }
    Ok(())
}

/// Raises where a cell begins, or fences, faster than it may.
pub fn admit_fence(connection: &Connection, catalog: &Catalog, cell_id: i64) -> Result<(), ClaimsError> {
    let rate = catalog.limits.get(&cell_id).and_then(|limits| limits.begins_per_second);
    rate.map_or(Ok(()), |per_second| {
        throttle::pass(connection, cell_id, per_second)
            .map_err(|again| AdmissionError::TooFast { cell_id, per_second, again }.into())
    })
}

/// Raises where a batch has more records than the cell's may have.
pub fn admit_batch(catalog: &Catalog, cell_id: i64, records: usize) -> Result<(), ClaimsError> {
    match catalog.limits.get(&cell_id).and_then(|limits| limits.max_batch_size) {
        Some(limit) if usize::try_from(limit).is_ok_and(|limit| records > limit) => {
            Err(AdmissionError::BatchTooLarge { cell_id, records, limit }.into())
        }
        _ => Ok(()),
    }
}

/// The mode once more, for a call that may have waited since: what was set meanwhile counts.
pub fn admit_still(connection: &Connection, cell_id: i64, need: Need) -> Result<(), ClaimsError> {
    admit(&catalog::current(connection), cell_id, need)
}

/// For calls that are no cell's: only what is set for everybody counts.
pub fn admit_everybody(catalog: &Catalog, need: Need) -> Result<(), ClaimsError> {
    // No cell has this number.
    mode_allows(catalog, i64::MIN, need)
}
