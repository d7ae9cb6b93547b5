//! `finish_transfer` and `cancel_transfer`: make the claims ACTIVE again, owned by the cell where they are.

use std::time::Instant;

use claims_model::transfer::TransferState;

use super::errors::TransferError;
use super::rights::{self, MovedRights};
use super::tables::{TRANSFER_TABLES, Transfer};
use super::transfers::TransferProgress;
use super::{has_passed, perform};
use crate::kernel::admin_action::AdminAction;
use crate::kernel::arguments;
use crate::kernel::call::Call;
use crate::kernel::error::ClaimsError;
use crate::service::{durability, waiters};
use pg::prelude::*;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn finish_transfer(
    transfer_uuid: Option<PgUuid>,
    max_runtime: default!(Option<Interval>, "NULL"),
) -> Result<TableIterator<'static, (name!(moved, i64), name!(finished, bool))>, ErrorReport> {
    let action = AdminAction::without_reason("finish_transfer")?;
    let deadline = arguments::end_of_runtime(max_runtime, Instant::now())?;
    Ok(TableIterator::once(perform(action, transfer_uuid, |call, transfer| {
        let (moved, finished) = finish(call, transfer, deadline)?;
        Ok(((moved, finished), vec![("moved", moved)]))
    })?))
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn cancel_transfer(
    transfer_uuid: Option<PgUuid>,
    reason: Option<String>,
    max_runtime: default!(Option<Interval>, "NULL"),
) -> Result<TableIterator<'static, (name!(released, i64), name!(finished, bool))>, ErrorReport> {
    let action = AdminAction::begin("cancel_transfer", reason)?;
    let deadline = arguments::end_of_runtime(max_runtime, Instant::now())?;
    Ok(TableIterator::once(perform(action, transfer_uuid, |call, transfer| {
        let (released, finished) = cancel(call, transfer, deadline)?;
        Ok(((released, finished), vec![("released", released)]))
    })?))
}

fn finish(call: &Call, transfer: Transfer, deadline: Option<Instant>) -> Result<(i64, bool), ClaimsError> {
    let Transfer { uuid, state, .. } = transfer;
    match state {
        TransferState::Switched | TransferState::Finishing => {}
        // Reversed, so finishing leaves the claims at the old cell.
        TransferState::Prepared if transfer.was_reversed => {}
        TransferState::Finished => return Ok((0, true)),
        TransferState::Preparing | TransferState::Prepared => {
            return Err(TransferError::NotSwitched { transfer: uuid, state: state.name() }.into());
        }
        TransferState::Cancelled => {
            return Err(TransferError::Ended { transfer: uuid, state: state.name(), cell_id: transfer.cell_id }.into());
        }
    }
    let states = [TransferState::Finishing, TransferState::Finished];
    release(call, &transfer, deadline, states, |moved| moved)
}

fn cancel(call: &Call, transfer: Transfer, deadline: Option<Instant>) -> Result<(i64, bool), ClaimsError> {
    let Transfer { uuid, state, cell_id, .. } = transfer;
    match state {
        TransferState::Preparing | TransferState::Prepared => {}
        TransferState::Cancelled => return Ok((0, true)),
        TransferState::Switched | TransferState::Finishing => {
            return Err(TransferError::Switched { transfer: uuid, state: state.name() }.into());
        }
        TransferState::Finished => {
            return Err(TransferError::Ended { transfer: uuid, state: state.name(), cell_id }.into());
        }
    }
    // While it still holds some of the claims it counts as incomplete: it cannot be switched, and can be prepared again.
    let states = [TransferState::Preparing, TransferState::Cancelled];
    release(call, &transfer, deadline, states, |_| 0)
}

/// Makes the claims that the transfer holds ACTIVE, step by step, and records the progress. The state becomes `going_on`, or
/// `done` if the transfer holds no more claims. Claims whose rows are locked are left for the next call.
fn release(
    call: &Call,
    transfer: &Transfer,
    deadline: Option<Instant>,
    [going_on, done]: [TransferState; 2],
    moved: impl FnOnce(i64) -> i64,
) -> Result<(i64, bool), ClaimsError> {
    // Both cells and the routers will rely on it.
    durability::promise();
    let mut after = transfer.releasing_after.clone();
    let is_whole_pass = after.is_none();
    let (mut released, mut seen) = (0, 0);
    while released < transfer.held {
        // One statement moves the claims of one step, and records them in the change feed.
        let step = TRANSFER_TABLES.of(call).release_held(call.connection, transfer, after.as_ref());
        released += step.changed;
        seen += step.wanted;
        after = step.after;
        if after.is_none() || has_passed(deadline) {
            break;
        }
        pgrx::check_for_interrupts!();
    }
    if released > 0 {
        waiters::settled_unknown();
    }
    let held = transfer.held - released;
    let has_rights = held == 0 && transfer.cell_id == transfer.to_cell && !move_rights(call, transfer, deadline);
    if is_whole_pass && after.is_none() && seen == 0 && held > 0 {
        return Err(TransferError::Damaged { transfer: transfer.uuid, held }.into());
    }
    let is_done = held == 0 && !has_rights;
    let state = if is_done { done } else { going_on };
    let after = after.filter(|_| held > 0);
    let progress = TransferProgress { state, changed: released, other: moved(released), after: after.as_ref() };
    TRANSFER_TABLES.of(call).record_released(call.connection, transfer, &progress);
    Ok((released, is_done))
}

/// Moves the right to names that are kept back to the new cell, step by step. Returns whether none is left; names whose rows are locked are left
/// for the next call.
fn move_rights(call: &Call, transfer: &Transfer, deadline: Option<Instant>) -> bool {
    loop {
        let MovedRights { found, moved } = rights::move_some(call, transfer);
        if found == 0 || moved == 0 || has_passed(deadline) {
            return found == 0;
        }
        pgrx::check_for_interrupts!();
    }
}
