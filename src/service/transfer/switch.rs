//! `switch_transfer` and `reverse_transfer`: one row, which every read of the transfer's claims goes by.

use claims_model::transfer::TransferState;
use pgrx::Uuid as PgUuid;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use super::perform;
use crate::acts::{Act, Counts};
use crate::distribution;
use crate::error::{ClaimsError, TransferError};
use crate::pg::clock::Moment;
use crate::pg::spi::Connection;
use crate::service::{durability, feed};
use crate::store::service::changes::{Change, ChangeSet};
use crate::store::service::distributed::transfers as distributed_transfers;
use crate::store::service::transfers::{self, Transfer};

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn switch_transfer(transfer_uuid: Option<PgUuid>, reason: Option<String>) -> Result<bool, ErrorReport> {
    let act = Act::begin("switch_transfer", reason)?;
    Ok(perform(act, transfer_uuid, switch)?)
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn reverse_transfer(transfer_uuid: Option<PgUuid>, reason: Option<String>) -> Result<bool, ErrorReport> {
    let act = Act::begin("reverse_transfer", reason)?;
    Ok(perform(act, transfer_uuid, reverse)?)
}

/// `false`: the claims are at the new cell already.
fn switch(connection: &Connection, transfer: Transfer) -> Result<(bool, Counts), ClaimsError> {
    let Transfer { uuid, cell_id, state, .. } = transfer;
    match state {
        TransferState::Prepared => {
            transfers::switch(connection, &transfer);
            tell(connection, &transfer, transfer.from_cell, transfer.to_cell);
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

/// `false`: the claims are at the old cell already.
fn reverse(connection: &Connection, transfer: Transfer) -> Result<(bool, Counts), ClaimsError> {
    let Transfer { uuid, cell_id, state, .. } = transfer;
    match state {
        TransferState::Switched => {
            transfers::reverse(connection, &transfer);
            tell(connection, &transfer, transfer.to_cell, transfer.from_cell);
            Ok((true, moved(transfer.held)))
        }
        TransferState::Preparing | TransferState::Prepared => Ok((false, moved(0))),
        TransferState::Finishing | TransferState::Finished if cell_id == transfer.from_cell => Ok((false, moved(0))),
        // The new cell may have changed what is its own by now.
        TransferState::Finishing => Err(TransferError::Finishing { transfer: uuid, cell_id }.into()),
        TransferState::Finished | TransferState::Cancelled => {
            Err(TransferError::Ended { transfer: uuid, state: state.name(), cell_id }.into())
        }
    }
}

/// Claims of which every read says another cell from now on.
fn moved(claims: i64) -> Counts {
    vec![("moved", claims)]
}

/// Routers will rely on it, and those who follow the change feed read it there.
fn tell(connection: &Connection, transfer: &Transfer, from: i64, to: i64) {
    durability::promise();
    if !feed::is_on() {
        return;
    }
    if distribution::is_spread() {
        let held = distributed_transfers::held(connection, transfer);
        let change = Change::Transfer(from, to);
        let set = ChangeSet { change, cause: Some(transfer.uuid), buckets: held.iter().collect() };
        return feed::tell(connection, &[set], Moment::now());
    }
    transfers::tell_moved(connection, transfer, from, to);
    feed::told(connection);
}
