//! Transfers: the claims of a customer go from one cell to another.
//!
//! prepare marks them, step by step; switch changes one row, and from that COMMIT on every read says the new cell; finish makes
//! them ordinary claims of it, step by step. docs/service/transfer.md has the picture.

mod finish;
mod prepare;
mod switch;

use std::time::{Duration, Instant};

use claims_model::mode::Need;
use pgrx::PgSqlErrorCode as Code;
use pgrx::Uuid as PgUuid;
use pgrx::datum::Interval;
use uuid::Uuid;

use crate::access::given;
use crate::acts::{Act, Counts};
use crate::arguments;
use crate::error::{ClaimsError, TransferError};
use crate::pg::settings::LockWaits;
use crate::pg::spi::Connection;
use crate::pg::subtransaction::{WITHOUT_WAITING, translate_error};
use crate::pg::uuid::from_pg_uuid;
use crate::service::{admission, engine};
use crate::store::catalog::{self, Catalog};
use crate::store::service::transfers::{self, Transfer};

/// Milliseconds to wait for a lock in a step: for relation extension, and where SKIP LOCKED follows a row that is just being
/// changed. Less than deadlock_timeout.
const PATIENCE: i64 = 500;

/// An act on a transfer that is there: locks its row, without waiting, and asks whether its cells may change anything. The body
/// says how many claims it has changed.
fn perform<T>(
    act: Act,
    transfer_uuid: Option<PgUuid>,
    body: impl FnOnce(&Connection, Transfer) -> Result<(T, Counts), ClaimsError>,
) -> Result<T, ClaimsError> {
    let uuid = from_pg_uuid(given(transfer_uuid, "transfer_uuid")?);
    act.with("transfer_uuid", uuid.to_string()).perform_counted(|connection| {
        at_once(connection, || {
            let transfer = locked(connection, uuid)?.ok_or(TransferError::Unknown { transfer: uuid })?;
            admit(&catalog::current(connection), transfer.from_cell, transfer.to_cell)?;
            body(connection, transfer)
        })
    })
}

/// Whatever would have to wait for another transaction is an error that says so.
fn at_once<T>(connection: &Connection, body: impl FnOnce() -> Result<T, ClaimsError>) -> Result<T, ClaimsError> {
    let _waits = LockWaits::limit(PATIENCE);
    translate_error(
        Code::ERRCODE_LOCK_NOT_AVAILABLE,
        || TransferError::Busy.into(),
        || engine::bounded(connection, body),
    )
}

fn locked(connection: &Connection, uuid: Uuid) -> Result<Option<Transfer>, ClaimsError> {
    let _waits = LockWaits::limit(WITHOUT_WAITING);
    Ok(transfers::lock(connection, uuid))
}

/// Claims of both cells change.
fn admit(catalog: &Catalog, from_cell: i64, to_cell: i64) -> Result<(), ClaimsError> {
    admission::admit(catalog, from_cell, Need::Settle)?;
    admission::admit(catalog, to_cell, Need::Settle)
}

/// When to stop; at least one step is done in any case.
fn deadline(max_runtime: Option<Interval>) -> Result<Option<Instant>, ClaimsError> {
    let started = Instant::now();
    let until = |runtime| {
        let micros = arguments::span(runtime, "max_runtime")?.as_micros().unsigned_abs();
        Ok(started + Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX)))
    };
    max_runtime.map(until).transpose()
}

fn has_passed(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}
