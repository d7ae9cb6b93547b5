//! `prepare_transfer`: marks the claims that are to move.

use std::time::Instant;

use claims_model::transfer::{Subjects, TransferState};
use pgrx::Uuid as PgUuid;
use pgrx::datum::Interval;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use uuid::Uuid;

use super::{admit, at_once, deadline, has_passed, locked};
use crate::access::given;
use crate::acts::Act;
use crate::error::{AccessError, ClaimsError, TransferError};
use crate::pg::jsonb::Jsonb;
use crate::pg::roles;
use crate::pg::settings::LockWaits;
use crate::pg::spi::{self, Connection, View};
use crate::pg::subtransaction::WITHOUT_WAITING;
use crate::pg::uuid::from_pg_uuid;
use crate::store::catalog;
use crate::store::service::leases;
use crate::store::service::transfers::{self, NewTransfer, Transfer, TransferProgress};

/// What a call has come to: claims marked, claims that its pass could not have, and whether it has all of them.
type Prepared = (i64, i64, bool);

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
#[allow(clippy::type_complexity)]
fn prepare_transfer(
    transfer_uuid: Option<PgUuid>,
    from_cell: Option<i64>,
    to_cell: Option<i64>,
    subjects: Option<Jsonb>,
    reason: Option<String>,
    max_runtime: default!(Option<Interval>, "NULL"),
) -> Result<TableIterator<'static, (name!(marked, i64), name!(skipped, i64), name!(finished, bool))>, ErrorReport> {
    let arguments = PrepareArguments { transfer_uuid, from_cell, to_cell, subjects, reason, max_runtime };
    Ok(TableIterator::once(prepare(arguments)?))
}

/// The arguments as they came.
struct PrepareArguments {
    transfer_uuid: Option<PgUuid>,
    from_cell: Option<i64>,
    to_cell: Option<i64>,
    subjects: Option<Jsonb>,
    reason: Option<String>,
    max_runtime: Option<Interval>,
}

/// A checked request.
struct PrepareRequest {
    uuid: Uuid,
    from_cell: i64,
    to_cell: i64,
    subjects: Subjects,
    digest: [u8; 32],
    reason: String,
}

fn prepare(arguments: PrepareArguments) -> Result<Prepared, ClaimsError> {
    let act = Act::begin("prepare_transfer", arguments.reason)?;
    let uuid = from_pg_uuid(given(arguments.transfer_uuid, "transfer_uuid")?);
    let from_cell = given(arguments.from_cell, "from_cell")?;
    let to_cell = given(arguments.to_cell, "to_cell")?;
    let subjects = given(arguments.subjects, "subjects")?;
    let deadline = deadline(arguments.max_runtime)?;
    if from_cell == to_cell {
        return Err(TransferError::OneCell { cell_id: from_cell }.into());
    }
    let subjects = spi::connect(|connection| {
        let catalog = catalog::current(connection);
        if let Some(cell_id) = [from_cell, to_cell].into_iter().find(|cell_id| !catalog.cells.contains_key(cell_id)) {
            return Err(ClaimsError::from(AccessError::UnknownCell { cell_id }));
        }
        Ok(Subjects::read(&mut subjects.tokens(), &catalog.types)?)
    })?;
    let digest = subjects.digest(from_cell, to_cell);
    let request = PrepareRequest { uuid, from_cell, to_cell, subjects, digest, reason: act.reason().to_owned() };
    let named = [("from_cell", from_cell), ("to_cell", to_cell), ("subjects", request.subjects.len() as i64)];
    let act =
        named.into_iter().fold(act.with("transfer_uuid", uuid.to_string()), |act, (name, value)| act.with(name, value));
    act.perform_counted(|connection| {
        at_once(connection, || {
            admit(&catalog::current(connection), from_cell, to_cell)?;
            let transfer = begun(connection, &request)?;
            if transfer.digest != request.digest {
                return Err(TransferError::OtherRequest { transfer: uuid }.into());
            }
            match transfer.state {
                TransferState::Preparing | TransferState::Prepared => {
                    let (marked, skipped, has_all) = pass(connection, &transfer, deadline);
                    Ok(((marked, skipped, has_all), vec![("marked", marked), ("skipped", skipped)]))
                }
                // A repeat: all of them were marked.
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

/// The transfer, its row locked: the one that is there, or a new one.
fn begun(connection: &Connection, request: &PrepareRequest) -> Result<Transfer, ClaimsError> {
    let uuid = request.uuid;
    if let Some(transfer) = locked(connection, uuid)? {
        return Ok(transfer);
    }
    if !leases::known(connection, &[uuid], View::Latest).is_empty() {
        return Err(TransferError::LeaseUuid { transfer: uuid }.into());
    }
    let _waits = LockWaits::limit(WITHOUT_WAITING);
    // Whoever removes a cell locks its row, too, and looks for transfers after that.
    if transfers::lock_cells(connection, request.from_cell, request.to_cell) < 2 {
        return Err(AccessError::UnknownCell { cell_id: request.from_cell }.into());
    }
    let new = NewTransfer {
        uuid,
        from_cell: request.from_cell,
        to_cell: request.to_cell,
        subjects: &request.subjects,
        digest: request.digest,
        reason: &request.reason,
        role: &roles::name(roles::caller()),
    };
    // If it is there by now, another session was faster, and has committed.
    transfers::insert(connection, &new);
    locked(connection, uuid)?.ok_or_else(|| TransferError::Busy.into())
}

/// Goes on with the pass over the cell's claims, or begins the next one.
fn pass(connection: &Connection, transfer: &Transfer, deadline: Option<Instant>) -> Prepared {
    let mut after = transfer.marking_after.clone();
    let (mut marked, mut skipped) = (0, if after.is_some() { transfer.skipped } else { 0 });
    loop {
        let step = transfers::mark(connection, transfer, after.as_ref());
        marked += step.changed;
        skipped += step.wanted - step.changed;
        after = step.after;
        if after.is_none() || has_passed(deadline) {
            break;
        }
        pgrx::check_for_interrupts!();
    }
    let has_all = after.is_none() && skipped == 0;
    let state = if has_all { TransferState::Prepared } else { TransferState::Preparing };
    let progress = TransferProgress { state, changed: marked, other: skipped, after: after.as_ref() };
    transfers::record_marked(connection, transfer, &progress);
    (marked, skipped, has_all)
}
