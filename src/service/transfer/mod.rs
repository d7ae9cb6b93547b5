//! Transfers: move the claims of a customer, or all claims of a cell, to another cell.
//!
//! prepare marks the claims, step by step. switch changes one row, and from its COMMIT on every read returns the new cell. finish
//! turns them into ordinary claims of the new cell, step by step. docs/service/transfer.md describes it.

pub mod errors;
mod finish;
mod local;
mod prepare;
mod rights;
mod switch;
mod tables;
pub mod transfers;
mod whole;

pub use self::tables::*;

use std::time::Instant;

use claims_model::mode::Need;
use pgrx::{PgSqlErrorCode as Code, Uuid as PgUuid};
use uuid::Uuid;

use self::errors::TransferError;
use super::admission;
use crate::kernel::admin_action::{AdminAction, Counts};
use crate::kernel::arguments::required;
use crate::kernel::call::Call;
use crate::kernel::error::ClaimsError;
use pg::settings::LockWaits;
use pg::subtransaction::{NO_WAIT_LIMIT_MS, translate_error};
use pg::uuid::from_pg_uuid;

::pgrx::extension_sql_file!("../../../sql/install/service/transfers.sql", name = "transfers", requires = ["tables"]);

/// Lock timeout of a step, in milliseconds: for relation extension, and for a row that SKIP LOCKED follows while it is being
/// changed. It is less than deadlock_timeout.
const LOCK_TIMEOUT_MS: i64 = 500;

/// Performs an action on an existing transfer. It locks the transfer's row without waiting, and checks whether its cells may make
/// changes. `body` returns how many claims it has changed.
fn perform<T>(
    action: AdminAction,
    transfer_uuid: Option<PgUuid>,
    body: impl FnOnce(&Call, Transfer) -> Result<(T, Counts), ClaimsError>,
) -> Result<T, ClaimsError> {
    let uuid = from_pg_uuid(required(transfer_uuid, "transfer_uuid")?);
    action.with("transfer_uuid", uuid.to_string()).perform_counted(|call| {
        at_once(call, || {
            let transfer = locked(call, uuid)?.ok_or(TransferError::Unknown { transfer: uuid })?;
            admit(call, [transfer.from_cell, transfer.to_cell])?;
            body(call, transfer)
        })
    })
}

/// Runs `body` with [LOCK_TIMEOUT_MS], and raises TransferError::Busy if it would have to wait longer.
fn at_once<T>(call: &Call, body: impl FnOnce() -> Result<T, ClaimsError>) -> Result<T, ClaimsError> {
    let _waits = LockWaits::limit(LOCK_TIMEOUT_MS);
    translate_error(&[Code::ERRCODE_LOCK_NOT_AVAILABLE], || TransferError::Busy.into(), || call.bounded(body))
}

fn locked(call: &Call, uuid: Uuid) -> Result<Option<Transfer>, ClaimsError> {
    let _waits = LockWaits::limit(NO_WAIT_LIMIT_MS);
    Ok(TRANSFER_TABLES.of(call).lock_transfer(call.connection, uuid))
}

/// Checks the modes of both cells, because claims of both change.
fn admit(call: &Call, cells: [i64; 2]) -> Result<(), ClaimsError> {
    cells.iter().try_for_each(|cell_id| admission::admit(&call.of_cell(*cell_id), Need::Settle))
}

/// Returns whether a call should stop. At least one step is always done.
fn has_passed(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}
