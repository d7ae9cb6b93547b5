//! Leases of this cell that stand in the way of its own next batch.
//!
//! A lease whose local transaction has committed is settled by `finish` or by the next pass of recovery. Until then its
//! names cannot be changed again, by the same cell either. An application that knows nothing of leases should not meet
//! that: where it would, the leases that are known to be committed here are settled on the spot.

use std::time::Duration;

use pgrx::PgSqlErrorCode as Code;
use serde_json::Value;
use uuid::Uuid;

use crate::cell::service::{Service, uuid_array};
use crate::error::ClaimsError;
use crate::pg::spi::Connection;
use crate::pg::subtransaction::{Caught, Stopped, attempt};
use crate::store::leases::from_pg_uuid;
use crate::store::{capture, cell};

/// Leases that are settled in one go, the newest ones.
const AT_ONCE: i64 = 1000;

/// Runs a begin at the service. An error of it is returned where it says that a lease of the same cell is in the way, and
/// raised again where it says anything else.
pub fn in_the_way<T>(
    cell_id: i64,
    begin: impl FnOnce() -> Result<T, ClaimsError>,
) -> Result<Option<Caught>, ClaimsError> {
    match attempt(begin) {
        Ok(_) => Ok(None),
        Err(Stopped::ByBody(error)) => Err(error),
        Err(Stopped::ByError(caught)) if is_of_own_lease(&caught, cell_id) => Ok(Some(caught)),
        Err(Stopped::ByError(caught)) => caught.rethrow(),
    }
}

/// DETAIL of a conflict is an array of conflicts.
fn is_of_own_lease(caught: &Caught, cell_id: i64) -> bool {
    let conflicts = || serde_json::from_str::<Vec<Value>>(caught.detail()?).ok();
    let is_own = |conflict: &Value| conflict["reason"] == "leased" && conflict["holder_cell_id"] == cell_id;
    caught.code() == Code::ERRCODE_LOCK_NOT_AVAILABLE && conflicts().is_some_and(|list| list.iter().any(is_own))
}

/// Has the service commit leases whose local transactions have committed, and forgets them here. `false`: there are none.
pub fn settle(
    connection: &Connection,
    service: &Service,
    cell_id: i64,
    timeout: Duration,
) -> Result<bool, ClaimsError> {
    let leases = capture::newest_tracked(connection, AT_ONCE);
    let sights = cell::sight(connection, leases.into_iter().map(|lease| (lease, None)));
    // Not those of this very transaction, which may still be rolled back.
    let committed: Vec<_> = sights.iter().filter(|sight| sight.tracked).map(|sight| sight.lease).collect();
    if committed.is_empty() {
        return Ok(false);
    }
    let statement = format!(
        "SELECT lease_uuid FROM claims.settle_leases({cell_id}, {}) WHERE outcome OPERATOR(pg_catalog.=) 'committed'",
        uuid_array(&committed)
    );
    let settled: Vec<Uuid> = service.call(&statement, "lease_uuid uuid", timeout, |row| from_pg_uuid(row.must(1)))?;
    cell::forget(connection, &settled);
    Ok(true)
}
