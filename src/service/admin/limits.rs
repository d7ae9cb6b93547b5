//! `set_cell_limits`: limits the leases, the batches and the rate of a cell.

use claims_model::{BadInput, Problem};

use super::errors::AdminError;
use crate::kernel::admin_action::AdminAction;
use crate::kernel::arguments::required;
use crate::kernel::error::{AccessError, ClaimsError};
use crate::kernel::limits::{self, CellLimits};
use crate::service::admission::PACE_KEEPER;
use pg::prelude::*;
use pg::roles;

#[pg_extern(name = "set_cell_limits", schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn set_cell_limits_2(
    cell_id: Option<i64>,
    reason: Option<String>,
    max_outstanding: default!(Option<i32>, "NULL"),
    max_batch_size: default!(Option<i32>, "NULL"),
    begins_per_second: default!(Option<i32>, "NULL"),
    max_priority: default!(Option<i32>, "NULL"),
    refusals_per_second: default!(Option<i32>, "NULL"),
) -> Result<(), ErrorReport> {
    let limits = CellLimits { max_outstanding, max_batch_size, begins_per_second, max_priority, refusals_per_second };
    Ok(set(cell_id, reason, limits)?)
}

fn set(cell_id: Option<i64>, reason: Option<String>, limits: CellLimits) -> Result<(), ClaimsError> {
    let action = AdminAction::begin("set_cell_limits", reason)?;
    let cell_id = required(cell_id, "cell_id")?;
    let CellLimits { max_outstanding, max_batch_size, begins_per_second, max_priority, refusals_per_second } = limits;
    at_least(max_outstanding, 0, "max_outstanding", "0 and more")?;
    at_least(max_batch_size, 1, "max_batch_size", "1 and more")?;
    at_least(begins_per_second, 1, "begins_per_second", "1 and more")?;
    at_least(refusals_per_second, 1, "refusals_per_second", "1 and more")?;
    at_least(max_priority, 0, "max_priority", PRIORITIES)?;
    if max_priority.is_some_and(|priority| priority > 10) {
        return Err(BadInput::new("max_priority", Problem::OutOfRange { allowed: PRIORITIES }).into());
    }
    let reason = action.reason().to_owned();
    let action = action.with("cell_id", cell_id).with("max_outstanding", max_outstanding);
    let action = action.with("max_batch_size", max_batch_size).with("begins_per_second", begins_per_second);
    let action = action.with("max_priority", max_priority).with("refusals_per_second", refusals_per_second);
    action.perform(|call| {
        if begins_per_second.is_some() && !PACE_KEEPER.of(call).counts_begins(call.connection) {
            return Err(AdminError::NotPreloaded.into());
        }
        if !call.current_catalog().cells.contains_key(&cell_id) {
            return Err(AccessError::UnknownCell { cell_id }.into());
        }
        limits::set(call.connection, cell_id, limits, &reason, &roles::name(roles::caller()));
        Ok(())
    })
}

/// The values that max_priority can have.
const PRIORITIES: &str = "0 to 10";

fn at_least(limit: Option<i32>, least: i32, name: &str, allowed: &'static str) -> Result<(), ClaimsError> {
    match limit {
        Some(limit) if limit < least => Err(BadInput::new(name, Problem::OutOfRange { allowed }).into()),
        _ => Ok(()),
    }
}
