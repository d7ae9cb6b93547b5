//! `track_lease` and `forget_leases`: record a lease with its local transaction, until the service has confirmed it.

use pgrx::PgSqlErrorCode as Code;

use super::errors::CellError;
use super::{MAX_LEASES, at_most, tracked, wakeup};
use crate::kernel::error::ClaimsError;
use crate::kernel::{access, arguments, catalog, settings};
use pg::prelude::*;
use pg::settings::LockWaits;
use pg::spi::{self, Connection};
use pg::subtransaction::{LOCK_ERRORS, translate_error};
use pg::uuid::from_pg_uuid;
use pg::xact;
use uuid::Uuid;

/// Minimum lock timeout of tracking in milliseconds: long enough for the relation extension lock, which would otherwise make the caller's transaction
/// fail.
const LOCK_TIMEOUT_MS: i64 = 5;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn track_lease(lease_uuid: Option<PgUuid>) -> Result<(), ErrorReport> {
    spi::connect(|connection| {
        let lease = from_pg_uuid(arguments::required(lease_uuid, "lease_uuid")?);
        let cell_id = only(access::cells_of_caller(&catalog::current(connection))?);
        let timeout_ms = i64::try_from(settings::wait_timeout().as_millis()).unwrap_or(i64::MAX);
        let _waits = LockWaits::limit(timeout_ms.max(LOCK_TIMEOUT_MS));
        translate_error(LOCK_ERRORS, || CellError::LeaseInRecovery.into(), || track(connection, lease, cell_id))
    })
    .map_err(ErrorReport::from)
}

/// Returns the cell if the caller's role has exactly one.
fn only(cells: Option<Vec<i64>>) -> Option<i64> {
    match cells.as_deref() {
        Some([cell_id]) => Some(*cell_id),
        _ => None,
    }
}

/// Inserts the lease's key, and then looks for a committed fence: an earlier fence is visible here, and a later one conflicts with the
/// key. Recovery acts on tracked leases at the service, so the local commit must survive a crash.
fn track(connection: &Connection, lease: Uuid, cell_id: Option<i64>) -> Result<(), ClaimsError> {
    tracked::track(connection, lease, cell_id);
    as_tracked(connection, lease)
}

/// Tracks a lease that this transaction has begun at a service under a new uuid.
pub fn track_new(connection: &Connection, lease: Uuid, cell_id: i64, service: &str) -> Result<(), ClaimsError> {
    translate_error(
        &[Code::ERRCODE_UNIQUE_VIOLATION],
        || CellError::LeaseInRecovery.into(),
        || {
            tracked::track_new(connection, lease, cell_id, service);
            as_tracked(connection, lease)
        },
    )
}

fn as_tracked(connection: &Connection, lease: Uuid) -> Result<(), ClaimsError> {
    xact::commit_durably();
    wakeup::has_work();
    if tracked::is_fenced(connection, lease) { Err(CellError::GivenUp { lease }.into()) } else { Ok(()) }
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn forget_leases(lease_uuids: Option<Vec<Option<PgUuid>>>) -> Result<i64, ErrorReport> {
    let forgotten = spi::connect(|connection| {
        // array_agg() over no rows returns NULL.
        let leases = lease_uuids.unwrap_or_default();
        at_most(leases.len(), MAX_LEASES, "lease_uuids")?;
        let leases = arguments::uuids(leases, "lease_uuids")?;
        let cells = access::cells_of_caller(&catalog::current(connection))?;
        Ok::<_, ClaimsError>(tracked::forget(connection, &leases, cells.as_deref()))
    })?;
    Ok(forgotten as i64)
}
