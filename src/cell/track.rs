//! `track_lease` and `forget_leases`: a lease whose local transaction committed, until the service knows it.

use pgrx::PgSqlErrorCode as Code;
use pgrx::Uuid as PgUuid;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use super::uuids;
use crate::access;
use crate::error::ClaimsError;
use crate::pg::settings::limit_lock_waits;
use crate::pg::spi::{self, Connection};
use crate::pg::subtransaction::translate_error;
use crate::settings;
use crate::store::cell;
use crate::store::leases::from_pg_uuid;
use uuid::Uuid;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn track_lease(lease_uuid: Option<PgUuid>) -> Result<(), ErrorReport> {
    spi::connect(|connection| {
        let lease = from_pg_uuid(access::given(lease_uuid, "lease_uuid")?);
        if settings::wait_timeout() > 0 {
            limit_lock_waits(settings::wait_timeout());
        }
        translate_error(
            Code::ERRCODE_LOCK_NOT_AVAILABLE,
            || ClaimsError::LeaseInRecovery,
            || {
                translate_error(
                    Code::ERRCODE_T_R_DEADLOCK_DETECTED,
                    || ClaimsError::LeaseInRecovery,
                    || track(connection, lease),
                )
            },
        )
    })
    .map_err(ErrorReport::from)
}

/// Takes the lease's key, and only then looks for a fence, among what is committed right now: whoever fenced it before
/// is seen here, and whoever wants to fence it from here on meets the key.
pub fn track(connection: &Connection, lease: Uuid) -> Result<(), ClaimsError> {
    cell::track(connection, lease);
    if cell::fences(connection, &[lease]).is_empty() { Ok(()) } else { Err(ClaimsError::GivenUp { lease }) }
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn forget_leases(lease_uuids: Option<Vec<Option<PgUuid>>>) -> Result<i64, ErrorReport> {
    let forgotten = spi::connect(|connection| {
        let leases = uuids(lease_uuids, "lease_uuids")?;
        Ok::<_, ClaimsError>(cell::forget(connection, &leases))
    })?;
    Ok(forgotten as i64)
}
