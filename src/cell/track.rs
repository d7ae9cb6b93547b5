//! `track_lease` and `forget_leases`: a lease whose local transaction committed, until the service knows it.

use pgrx::PgSqlErrorCode as Code;
use pgrx::Uuid as PgUuid;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use super::uuids;
use crate::access;
use crate::cell::wakeup;
use crate::error::{CellError, ClaimsError};
use crate::pg::settings::LockWaits;
use crate::pg::spi::{self, Connection};
use crate::pg::subtransaction::translate_error;
use crate::pg::uuid::from_pg_uuid;
use crate::pg::xact;
use crate::settings;
use crate::store::catalog;
use crate::store::cell::tracked;
use uuid::Uuid;

/// Milliseconds that tracking waits for a lock in any case: long enough for a table that is being extended, which would
/// otherwise cost the caller its transaction.
const PATIENCE: i64 = 5;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn track_lease(lease_uuid: Option<PgUuid>) -> Result<(), ErrorReport> {
    spi::connect(|connection| {
        let lease = from_pg_uuid(access::given(lease_uuid, "lease_uuid")?);
        let cell_id = only(access::cells_of_caller(&catalog::current(connection))?);
        let _waits = LockWaits::limit(settings::wait_timeout().max(PATIENCE));
        translate_error(
            Code::ERRCODE_LOCK_NOT_AVAILABLE,
            || CellError::LeaseInRecovery.into(),
            || {
                translate_error(
                    Code::ERRCODE_T_R_DEADLOCK_DETECTED,
                    || CellError::LeaseInRecovery.into(),
                    || track(connection, lease, cell_id),
                )
            },
        )
    })
    .map_err(ErrorReport::from)
}

/// The cell, where the caller's role says which one it is.
fn only(cells: Option<Vec<i64>>) -> Option<i64> {
    match cells.as_deref() {
        Some([cell_id]) => Some(*cell_id),
        _ => None,
    }
}

/// Takes the lease's key, and only then looks for a fence, among what is committed right now: whoever fenced it before
/// is seen here, and whoever wants to fence it from here on meets the key. Recovery acts on what it finds tracked, at the
/// service: so a crash must not undo that here.
pub fn track(connection: &Connection, lease: Uuid, cell_id: Option<i64>) -> Result<(), ClaimsError> {
    xact::commit_durably();
    tracked::track(connection, lease, cell_id);
    wakeup::has_work();
    if tracked::fences(connection, &[lease]).is_empty() { Ok(()) } else { Err(CellError::GivenUp { lease }.into()) }
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn forget_leases(lease_uuids: Option<Vec<Option<PgUuid>>>) -> Result<i64, ErrorReport> {
    let forgotten = spi::connect(|connection| {
        let leases = uuids(lease_uuids, "lease_uuids")?;
        let cells = access::cells_of_caller(&catalog::current(connection))?;
        Ok::<_, ClaimsError>(tracked::forget(connection, &leases, cells.as_deref()))
    })?;
    Ok(forgotten as i64)
}
