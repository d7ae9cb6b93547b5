//! `prepare_transfer`: marks the claims to transfer.

use std::time::Instant;

use claims_model::transfer::{Scope, Subjects, TransferState};

use super::errors::TransferError;
use super::tables::{TRANSFER_TABLES, Transfer};
use super::transfers::{self, NewTransfer, TransferProgress};
use super::{admit, at_once, has_passed, locked, whole};
use crate::kernel::admin_action::AdminAction;
use crate::kernel::arguments;
use crate::kernel::call::Call;
use crate::kernel::error::{AccessError, ClaimsError};
use crate::service::claims::leases;
use pg::jsonb::Jsonb;
use pg::prelude::*;
use pg::roles;
use pg::settings::LockWaits;
use pg::spi::View;
use pg::subtransaction::NO_WAIT_LIMIT_MS;
use pg::uuid::from_pg_uuid;

/// The counts of a call: claims marked, claims skipped in this pass, and whether all claims are marked.
type PassCounts = (i64, i64, bool);

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn prepare_transfer(
    transfer_uuid: Option<PgUuid>,
    from_cell: Option<i64>,
    to_cell: Option<i64>,
    subjects: Option<Jsonb>,
    reason: Option<String>,
    max_runtime: default!(Option<Interval>, "NULL"),
) -> Result<TableIterator<'static, (name!(marked, i64), name!(skipped, i64), name!(finished, bool))>, ErrorReport> {
    let action = AdminAction::begin("prepare_transfer", reason)?;
    arguments::require!(transfer_uuid, from_cell, to_cell);
    let deadline = arguments::end_of_runtime(max_runtime, Instant::now())?;
    let scope = scope([from_cell, to_cell], subjects)?;
    let wanted = NewTransfer {
        uuid: from_pg_uuid(transfer_uuid),
        from_cell,
        to_cell,
        digest: scope.digest(from_cell, to_cell),
        scope,
        reason: action.reason().to_owned(),
        role: roles::name(roles::caller()),
    };
    Ok(TableIterator::once(prepare(action, &wanted, deadline)?))
}

/// Returns what a transfer between two cells moves.
fn scope(cells: [i64; 2], subjects: Option<Jsonb>) -> Result<Scope, ClaimsError> {
    if cells[0] == cells[1] {
        return Err(TransferError::OneCell { cell_id: cells[0] }.into());
    }
    let catalog = Call::run(|call| call.current_catalog());
    if let Some(cell_id) = cells.into_iter().find(|cell_id| !catalog.cells.contains_key(cell_id)) {
        return Err(AccessError::UnknownCell { cell_id }.into());
    }
    let Some(subjects) = subjects else {
        whole::require_newest_snapshot()?;
        return Ok(Scope::WholeCell);
    };
    Ok(Scope::Subjects(Subjects::read(&mut subjects.tokens(), &catalog.types)?))
}

fn prepare(action: AdminAction, wanted: &NewTransfer, deadline: Option<Instant>) -> Result<PassCounts, ClaimsError> {
    let NewTransfer { uuid, from_cell, to_cell, .. } = *wanted;
    let subjects = wanted.scope.subjects().map(|subjects| subjects.len() as i64);
    let named = [("from_cell", Some(from_cell)), ("to_cell", Some(to_cell)), ("subjects", subjects)];
    let action = named
        .into_iter()
        .fold(action.with("transfer_uuid", uuid.to_string()), |action, (name, value)| action.with(name, value));
    action.perform_counted(|call| {
        at_once(call, || {
            admit(call, [from_cell, to_cell])?;
            let transfer = begun(call, wanted)?;
            if transfer.digest != wanted.digest {
                return Err(TransferError::OtherRequest { transfer: uuid }.into());
            }
            match transfer.state {
                TransferState::Preparing | TransferState::Prepared => {
                    let (marked, skipped, has_all) = pass(call, &transfer, deadline)?;
                    Ok(((marked, skipped, has_all), vec![("marked", marked), ("skipped", skipped)]))
                }
                // A repeat: all claims were marked.
                TransferState::Switched | TransferState::Finishing | TransferState::Finished => {
                    Ok(((0, 0, true), vec![("marked", 0), ("skipped", 0)]))
                }
                TransferState::Cancelled => {
                    let state = transfer.state.name();
                    Err(TransferError::Ended { transfer: uuid, state, cell_id: transfer.cell_id }.into())
                }
            }
        })
    })
}

/// Returns the transfer with its row locked: the existing one, or a new one.
fn begun(call: &Call, wanted: &NewTransfer) -> Result<Transfer, ClaimsError> {
    let uuid = wanted.uuid;
    if let Some(transfer) = locked(call, uuid)? {
        return Ok(transfer);
    }
    if !leases::existing(call.connection, &[uuid], View::Latest).is_empty() {
        return Err(TransferError::LeaseUuid { transfer: uuid }.into());
    }
    let _waits = LockWaits::limit(NO_WAIT_LIMIT_MS);
    // remove_cell() locks the cell's row, too, and looks for transfers after that.
    if TRANSFER_TABLES.of(call).lock_cells(call.connection, [wanted.from_cell, wanted.to_cell]) < 2 {
        return Err(AccessError::UnknownCell { cell_id: wanted.from_cell }.into());
    }
    if !transfers::writes_announced() {
        return Err(TransferError::Busy.into());
    }
    if let Some(transfer) = transfers::of_whole_cell(call.connection, wanted.to_cell) {
        return Err(TransferError::CellMoves { transfer, cell_id: wanted.to_cell }.into());
    }
    // If the transfer exists by now, another session has committed it first.
    TRANSFER_TABLES.of(call).insert_transfer(call.connection, wanted);
    locked(call, uuid)?.ok_or_else(|| TransferError::Busy.into())
}

/// Continues the pass over the cell's claims, or begins the next one.
fn pass(call: &Call, transfer: &Transfer, deadline: Option<Instant>) -> Result<PassCounts, ClaimsError> {
    // A repeat: nothing can have been made since.
    if transfer.state == TransferState::Prepared && whole::kept_seal(call.connection, transfer).is_some() {
        return Ok((0, 0, true));
    }
    let mut after = transfer.marking_after.clone();
    let (mut seal, mut unsealed) = (None, None);
    match &after {
        Some(_) => seal = whole::kept_seal(call.connection, transfer),
        None if transfer.is_whole => match whole::seal(call, transfer)? {
            Ok(new) => seal = Some(new),
            Err(reason) => unsealed = Some(reason),
        },
        None => {}
    }
    let (mut marked, mut skipped) = (0, if after.is_some() { transfer.skipped } else { 0 });
    loop {
        let step = TRANSFER_TABLES.of(call).mark_held(call.connection, transfer, after.as_ref());
        marked += step.changed;
        skipped += step.wanted - step.changed;
        after = step.after;
        if after.is_none() || has_passed(deadline) {
            break;
        }
        pgrx::check_for_interrupts!();
    }
    if after.is_none() {
        // The new claims of these leases are the transfer's, too.
        skipped += TRANSFER_TABLES.of(call).count_reclaims(call.connection, transfer);
    }
    seal = seal.filter(|seal| whole::is_unbroken(call.connection, transfer, seal));
    let has_all = after.is_none() && skipped == 0 && (seal.is_some() || !transfer.is_whole);
    let state = if has_all { TransferState::Prepared } else { TransferState::Preparing };
    let progress = TransferProgress { state, changed: marked, other: skipped, after: after.as_ref() };
    TRANSFER_TABLES.of(call).record_marked(call.connection, transfer, &progress, seal.as_ref());
    if transfer.is_whole && seal.is_none() {
        unsealed = unsealed.or(Some(whole::Unsealed::Begun));
    }
    if let Some(unsealed) = unsealed.filter(|_| after.is_none()) {
        whole::explain(transfer, &unsealed, marked)?;
    }
    Ok((marked, skipped, has_all))
}
