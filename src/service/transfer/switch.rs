//! `switch_transfer` and `reverse_transfer`: change the one row that decides which cell reads return.

use claims_model::transfer::TransferState;

use super::{perform, whole};
use crate::admin_action::{AdminAction, Counts};
use crate::error::{ClaimsError, TransferError};
use crate::service::{audit, durability, feed};
use crate::store::catalog;
use crate::tables::Tables;
use crate::tables::rows::transfers::Transfer;
use crate::tables::shared::transfers;
use pg::prelude::*;
use pg::spi::Connection;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn switch_transfer(transfer_uuid: Option<PgUuid>, reason: Option<String>) -> Result<bool, ErrorReport> {
    let action = AdminAction::begin("switch_transfer", reason)?;
    Ok(perform(action, transfer_uuid, switch)?)
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn reverse_transfer(transfer_uuid: Option<PgUuid>, reason: Option<String>) -> Result<bool, ErrorReport> {
    let action = AdminAction::begin("reverse_transfer", reason)?;
    Ok(perform(action, transfer_uuid, reverse)?)
}

/// Switches the claims to the new cell. Returns `false` if they are there already.
fn switch(tables: &dyn Tables, connection: &Connection, transfer: Transfer) -> Result<(bool, Counts), ClaimsError> {
    let Transfer { uuid, cell_id, state, .. } = transfer;
    match state {
        TransferState::Prepared => {
            if transfer.is_whole {
                whole::require_seal(connection, &transfer)?;
            }
            transfers::switch(tables, connection, &transfer);
            tell(tables, connection, &transfer, transfer.from_cell, transfer.to_cell);
            Ok((true, moved(transfer.held)))
        }
        TransferState::Preparing => {
            Err(TransferError::NotPrepared { transfer: uuid, skipped: transfer.skipped }.into())
        }
        TransferState::Switched | TransferState::Finishing | TransferState::Finished if cell_id == transfer.to_cell => {
            Ok((false, moved(0)))
        }
        TransferState::Switched | TransferState::Finishing => {
            Err(TransferError::Finishing { transfer: uuid, cell_id }.into())
        }
        TransferState::Finished | TransferState::Cancelled => {
            Err(TransferError::Ended { transfer: uuid, state: state.name(), cell_id }.into())
        }
    }
}

/// Switches the claims back to the old cell. Returns `false` if they are there already.
fn reverse(tables: &dyn Tables, connection: &Connection, transfer: Transfer) -> Result<(bool, Counts), ClaimsError> {
    let Transfer { uuid, cell_id, state, .. } = transfer;
    match state {
        TransferState::Switched => {
            transfers::reverse(tables, connection, &transfer);
            tell(tables, connection, &transfer, transfer.to_cell, transfer.from_cell);
            Ok((true, moved(transfer.held)))
        }
        TransferState::Preparing | TransferState::Prepared => Ok((false, moved(0))),
        TransferState::Finishing | TransferState::Finished if cell_id == transfer.from_cell => Ok((false, moved(0))),
        // The new cell may have changed its claims by now.
        TransferState::Finishing => Err(TransferError::Finishing { transfer: uuid, cell_id }.into()),
        TransferState::Finished | TransferState::Cancelled => {
            Err(TransferError::Ended { transfer: uuid, state: state.name(), cell_id }.into())
        }
    }
}

/// Returns the counts for the log.
fn moved(claims: i64) -> Counts {
    vec![("moved", claims)]
}

/// Makes the switch durable, because routers will rely on it, and records it in the change feed.
fn tell(tables: &dyn Tables, connection: &Connection, transfer: &Transfer, from: i64, to: i64) {
    durability::promise();
    audit::moved(tables, connection, &catalog::current(connection).types, transfer, to);
    if !feed::is_on() {
        return;
    }
    tables.tell_moved(connection, transfer, from, to);
    feed::notify_readers(connection);
}
