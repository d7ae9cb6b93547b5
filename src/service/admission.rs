//! Admission: decides whether the service does what a cell asks for. It reads only the session's cached catalog, which is current
//! up to the last COMMIT that changed it.

use claims_model::mode::Need;
use claims_model::rate;
use uuid::Uuid;

use super::claims::leases;
use super::errors::AdmissionError;
use super::{durability, low_water};
use crate::kernel::call::CellCall;
use crate::kernel::catalog::Catalog;
use crate::kernel::error::ClaimsError;
use crate::kernel::tables::{Door, Local};
use crate::kernel::{limits, pace};
use pg::clock::Moment;
use pg::spi::{Connection, View};

/// Counts the begins of cells.
pub trait PaceKeeper: Sync {
    /// Returns whether begins are counted: by this server, or by the one that counts for all nodes.
    fn counts_begins(&self, connection: &Connection) -> bool;

    /// Lets one more begin of a cell pass, or returns from which moment on one may.
    fn pass_pace(&self, connection: &Connection, cell_id: i64, per_second: i32, records: i64) -> Result<(), Moment>;
}

/// Where the begins are counted.
pub static PACE_KEEPER: Door<dyn PaceKeeper> = Door::local(&Local);

impl PaceKeeper for Local {
    fn counts_begins(&self, _: &Connection) -> bool {
        pace::is_counted()
    }

    fn pass_pace(&self, _: &Connection, cell_id: i64, per_second: i32, records: i64) -> Result<(), Moment> {
        pace::pass(cell_id, per_second, records)
    }
}

/// Raises an error if the mode of the cell, or of all cells, does not allow what a call needs, or if the call could not be
/// replicated.
pub fn admit(call: &CellCall, need: Need) -> Result<(), ClaimsError> {
    durability::require_standby(call)?;
    mode_allows(&call.catalog, call.cell_id, need)
}

/// Raises an error if the mode of the cell, or of all cells, does not allow what a call needs.
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

/// Raises an error unless mode, rate and number of outstanding leases allow a begin. Called before the batch is read. A repeat of
/// an outstanding lease does not count against the number.
pub fn admit_begin(call: &CellCall, given: Option<Uuid>) -> Result<(), ClaimsError> {
    let (connection, cell_id) = (call.connection, call.cell_id);
    admit(call, Need::Begin)?;
    admit_fence(call)?;
    let Some(limit) = call.catalog.limits.get(&cell_id).and_then(|limits| limits.max_outstanding) else {
        return Ok(());
    };
    let is_repeat = || given.is_some_and(|lease| !leases::existing(connection, &[lease], View::Latest).is_empty());
    let outstanding = limits::outstanding(connection, cell_id, low_water::of_caller(call, cell_id), limit.into());
    if outstanding >= limit.into() && !is_repeat() {
        return Err(AdmissionError::TooManyLeases { cell_id, limit }.into());
    }
    Ok(())
}

/// Raises an error if a cell begins, or fences, faster than its rate allows.
pub fn admit_fence(call: &CellCall) -> Result<(), ClaimsError> {
    pass_pace(call, rate::RECORDS)
}

/// Raises an error if a cell imports or corrects more records than it may send in a batch, or faster than its rate of begins allows:
/// a thousand records count as a begin. No lease holds these records, so they do not count against the number of outstanding leases.
pub fn admit_records(call: &CellCall, records: usize) -> Result<(), ClaimsError> {
    if records == 0 {
        return Ok(());
    }
    admit_batch(call, records)?;
    pass_pace(call, i64::try_from(records).unwrap_or(i64::MAX))
}

fn pass_pace(call: &CellCall, records: i64) -> Result<(), ClaimsError> {
    let cell_id = call.cell_id;
    let rate = call.catalog.limits.get(&cell_id).and_then(|limits| limits.begins_per_second);
    rate.map_or(Ok(()), |per_second| {
        PACE_KEEPER
            .of(call)
            .pass_pace(call.connection, cell_id, per_second, records)
            .map_err(|again| AdmissionError::TooFast { cell_id, per_second, again }.into())
    })
}

/// Raises an error if a batch has more records than the cell's limit allows.
pub fn admit_batch(call: &CellCall, records: usize) -> Result<(), ClaimsError> {
    let cell_id = call.cell_id;
    match call.catalog.limits.get(&cell_id).and_then(|limits| limits.max_batch_size) {
        Some(limit) if usize::try_from(limit).is_ok_and(|limit| records > limit) => {
            Err(AdmissionError::BatchTooLarge { cell_id, records, limit }.into())
        }
        _ => Ok(()),
    }
}

/// Checks the mode again for a call that may have waited: the mode may have changed meanwhile.
pub fn admit_still(call: &CellCall, need: Need) -> Result<(), ClaimsError> {
    durability::require_standby(call)?;
    mode_allows(&call.current_catalog(), call.cell_id, need)
}

/// Checks only the mode of all cells, for calls that belong to no cell.
pub fn admit_everybody(catalog: &Catalog, need: Need) -> Result<(), ClaimsError> {
    // No cell has this number.
    mode_allows(catalog, i64::MIN, need)
}
