//! `add_id_space`, `lease_id_range` and their sisters: ranges of ids that no two cells get.
//!
//! No range is given twice: [`Space::next_id`] only grows, rows of ranges stay for ever, and an exclusion constraint refuses what
//! would overlap. A caller that loses the answer, or rolls back, has lost the range: see [`draw`].

pub mod draw;
mod errors;
pub mod spaces;

use claims_model::ids::{MAX_ID, Space};
use claims_model::limits::{KIND_CHARS, REASON_CHARS};
use claims_model::mode::Need;
use claims_model::{BadInput, Problem};

use self::draw::{MAX_SIZE, RangeRequest};
use self::errors::IdSpaceError;
use self::spaces::{ExistingSpace, GivenBy, NewSpace, RangeToGive, SpaceLimits};
use super::{admission, durability};
use crate::kernel::admin_action::AdminAction;
use crate::kernel::arguments::{self, required};
use crate::kernel::call::{CellCall, answer};
use crate::kernel::error::{AccessError, ClaimsError};
use pg::prelude::*;
use pg::roles;

::pgrx::extension_sql_file!(
    "../../../sql/install/service/ids.sql",
    name = "service_ids",
    requires = [
        "admin",
        service::ids::add_id_space,
        service::ids::lease_id_range,
        service::ids::confirm_id_range,
        service::ids::restore_id_range
    ]
);

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn add_id_space(
    name: Option<String>,
    reason: Option<String>,
    first_id: default!(Option<i64>, 1),
    last_id: default!(Option<i64>, 9223372036854775806),
    block_size: default!(Option<i64>, "NULL"),
    max_range: default!(Option<i64>, 1000000),
    ranges_per_day: default!(Option<i32>, 100),
) -> Result<(), ErrorReport> {
    answer(|| {
        let action = AdminAction::begin("add_id_space", reason)?;
        let name = arguments::text(name, "name", KIND_CHARS)?;
        let (first_id, last_id) = bounds(first_id, last_id)?;
        let size = block_size.unwrap_or_else(|| Space::default_block(first_id, last_id));
        if size < 1 {
            return Err(out_of_range("block_size", "1 and more"));
        }
        arguments::require!(max_range, ranges_per_day);
        if !(1..=MAX_SIZE).contains(&max_range) {
            return Err(out_of_range("max_range", "1 to 1000000000"));
        }
        if ranges_per_day < 1 {
            return Err(out_of_range("ranges_per_day", "1 and more"));
        }
        let limits = SpaceLimits { max_range, ranges_per_day };
        let reason = arguments::text(Some(action.reason().to_owned()), "reason", REASON_CHARS)?;
        let action = action.with("name", name.as_str()).with("first_id", first_id).with("last_id", last_id);
        let action = action.with("max_range", max_range).with("ranges_per_day", ranges_per_day);
        action.with("block_size", block_size).perform(|call| {
            call.tables.require_here()?;
            let space = Space { first_id, last_id, block_size: size, next_id: first_id };
            let role = &roles::name(roles::caller());
            let new = NewSpace { name: &name, space: &space, limits, reason: &reason, role };
            if spaces::add(call.connection, &new) {
                return Ok(());
            }
            // It exists: the call can only let it grow, or change its limits.
            let Some(existing) = spaces::lock(call.connection, &name) else {
                return Err(IdSpaceError::UnknownSpace { name }.into());
            };
            let is_same = [1, existing.space.first_id].contains(&first_id)
                && block_size.is_none_or(|size| size == existing.space.block_size);
            let changes = last_id > existing.space.last_id || limits != existing.limits;
            if !is_same || last_id < existing.space.last_id || !changes {
                let Space { first_id, last_id, .. } = existing.space;
                return Err(IdSpaceError::SpaceExists { name, first_id, last_id }.into());
            }
            spaces::grow(call.connection, existing.number, last_id, limits);
            Ok(())
        })
    })
}

/// Gives a cell the next ids of a space. `continue_after` is the last id of a range that the new one should follow.
#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn lease_id_range(
    cell_id: Option<i64>,
    id_space: Option<String>,
    size: default!(Option<i64>, 1000000),
    continue_after: default!(Option<i64>, "NULL"),
    at_most: default!(Option<i64>, "NULL"),
    or_less: default!(Option<bool>, false),
) -> Result<pgrx::Range<i64>, ErrorReport> {
    let (first, last) = lease(cell_id, id_space, size, (continue_after, at_most), or_less)?;
    // No id is above MAX_ID.
    Ok(pgrx::Range::from(first..last + 1))
}

fn lease(
    cell_id: Option<i64>,
    id_space: Option<String>,
    size: Option<i64>,
    (continue_after, at_most): (Option<i64>, Option<i64>),
    or_less: Option<bool>,
) -> Result<(i64, i64), ClaimsError> {
    arguments::require!(cell_id, id_space, size, or_less);
    if !(1..=MAX_SIZE).contains(&size) {
        return Err(out_of_range("size", "1 to 1000000000"));
    }
    let at_most = at_most.unwrap_or(MAX_ID).min(MAX_ID);
    CellCall::run(Some(cell_id), |call| {
        call.tables.require_here()?;
        admission::admit(call, Need::Begin)?;
        let found = spaces::find(call.connection, &id_space);
        let found = found.ok_or_else(|| IdSpaceError::UnknownSpace { name: id_space.clone() })?;
        let size = if or_less { size.min(found.limits.max_range) } else { size };
        let is_limited = !roles::caller_is_admin();
        let request = RangeRequest { cell_id, size, continue_after, at_most, is_limited };
        draw::draw(call.connection, &id_space, &found, &request)
    })
}

/// Returns what a cell may do with ids that it was given.
#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn confirm_id_range(
    cell_id: Option<i64>,
    id_space: Option<String>,
    first_id: Option<i64>,
    last_id: Option<i64>,
) -> Result<String, ErrorReport> {
    answer(|| {
        arguments::require!(cell_id, id_space);
        let range = bounds(first_id, last_id)?;
        CellCall::run(Some(cell_id), |call| {
            call.tables.require_here()?;
            if spaces::find(call.connection, &id_space).is_none() {
                return Err(IdSpaceError::UnknownSpace { name: id_space }.into());
            }
            Ok(spaces::state(call.connection, &id_space, cell_id, range).unwrap_or_else(|| "unknown".to_owned()))
        })
    })
}

/// Records a range that a cell was given after the backup that the service was restored from.
#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn restore_id_range(
    cell_id: Option<i64>,
    id_space: Option<String>,
    first_id: Option<i64>,
    last_id: Option<i64>,
    reason: Option<String>,
) -> Result<(), ErrorReport> {
    answer(|| {
        let action = AdminAction::begin("restore_id_range", reason)?;
        arguments::require!(cell_id, id_space);
        let range = bounds(first_id, last_id)?;
        let action = action.with("cell_id", cell_id).with("id_space", id_space.as_str());
        action.with("first_id", range.0).with("last_id", range.1).perform(|call| {
            call.tables.require_here()?;
            if !call.current_catalog().cells.contains_key(&cell_id) {
                return Err(AccessError::UnknownCell { cell_id }.into());
            }
            durability::promise();
            let unknown = || IdSpaceError::UnknownSpace { name: id_space.clone() };
            let ExistingSpace { number, space, .. } = spaces::lock(call.connection, &id_space).ok_or_else(unknown)?;
            if range.0 < space.first_id || range.1 > space.last_id {
                return Err(out_of_range("first_id", "ids of the space"));
            }
            if let Some(holder) = spaces::holder(call.connection, number, range) {
                return Err(IdSpaceError::RangeTaken { first_id: range.0, last_id: range.1, cell_id: holder }.into());
            }
            let next_id = space.next_id.max(space.block_after(range.1));
            let range = RangeToGive { cell_id, first: range.0, last: range.1, next_id };
            spaces::give(call.connection, number, &range, GivenBy::Restore);
            Ok(())
        })
    })
}

fn bounds(first_id: Option<i64>, last_id: Option<i64>) -> Result<(i64, i64), ClaimsError> {
    let (first_id, last_id) = (required(first_id, "first_id")?, required(last_id, "last_id")?);
    if last_id > MAX_ID {
        return Err(out_of_range("last_id", "up to 9223372036854775806"));
    }
    if first_id > last_id {
        return Err(out_of_range("first_id", "up to last_id"));
    }
    Ok((first_id, last_id))
}

fn out_of_range(argument: &str, allowed: &'static str) -> ClaimsError {
    BadInput::new(argument, Problem::OutOfRange { allowed }).into()
}
