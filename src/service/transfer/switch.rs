//! `switch_transfer` and `reverse_transfer`: change the one row that decides which cell reads return.

use claims_model::Types;
use claims_model::transfer::TransferState;

use super::errors::TransferError;
use super::tables::{TRANSFER_TABLES, Transfer};
use super::{perform, whole};
use crate::kernel::admin_action::{AdminAction, Counts};
use crate::kernel::attribution;
use crate::kernel::call::Call;
use crate::kernel::error::ClaimsError;
use crate::kernel::settings::{self, Audit};
use crate::service::audit::{self, AUDIT_TABLES, AuditRow, AuditedName, NameColumns};
use crate::service::claims::OwnedName;
use crate::service::{durability, feed};
use pg::clock::Moment;
use pg::prelude::*;

/// The word of the audit log for names that a transfer has moved.
const TRANSFERRED: &str = "transferred";
/// The most names in one row of the audit log about a transfer.
const NAMES_PER_ROW: usize = 1000;

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
fn switch(call: &Call, transfer: Transfer) -> Result<(bool, Counts), ClaimsError> {
    let Transfer { uuid, cell_id, state, .. } = transfer;
    match state {
        TransferState::Prepared => {
            if transfer.is_whole {
                whole::require_seal(call.connection, &transfer)?;
            }
            TRANSFER_TABLES.of(call).switch_transfer(call.connection, &transfer);
            tell(call, &transfer, transfer.from_cell, transfer.to_cell);
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
fn reverse(call: &Call, transfer: Transfer) -> Result<(bool, Counts), ClaimsError> {
    let Transfer { uuid, cell_id, state, .. } = transfer;
    match state {
        TransferState::Switched => {
            TRANSFER_TABLES.of(call).reverse_transfer(call.connection, &transfer);
            tell(call, &transfer, transfer.to_cell, transfer.from_cell);
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
fn tell(call: &Call, transfer: &Transfer, from: i64, to: i64) {
    durability::promise();
    audit_moved(call, &call.current_catalog().types, transfer, [from, to]);
    if !feed::is_on() {
        return;
    }
    TRANSFER_TABLES.of(call).tell_moved(call.connection, transfer, [from, to], attribution::of_session());
    feed::notify_readers(call.connection);
}

/// Records that the claims of a transfer have moved from one cell to another.
fn audit_moved(call: &Call, types: &Types, transfer: &Transfer, [from, to]: [i64; 2]) {
    if settings::audit() == Audit::Off {
        return;
    }
    let actor = audit::actor();
    TRANSFER_TABLES.of(call).each_held(call.connection, transfer, NAMES_PER_ROW, &mut |held| {
        let names = held.iter().map(|OwnedName { bucket, owner }| {
            let owner = Some(owner.owner());
            AuditedName { op: "transfer", bucket, old: owner, new: owner }
        });
        let names = NameColumns::of(&names.collect::<Vec<_>>(), types);
        let row = audit::nameless(Moment::now(), to, TRANSFERRED, &actor);
        let row = AuditRow { lease: Some(transfer.uuid), names, old_cell_id: Some(from), ..row };
        AUDIT_TABLES.of(call).record_audit(call.connection, &[row]);
    });
}
