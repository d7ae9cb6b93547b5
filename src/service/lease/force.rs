//! `force_rollback`: rolls back a lease on behalf of an administrator.

use std::time::{Duration, Instant};

use claims_model::Types;
use pgrx::PgSqlErrorCode as Code;
use serde_json::{Value, json};
use uuid::Uuid;

use super::end::{ToEnd, end_leases};
use super::settle::{CLAIM_LOCK_TIMEOUT_MS, LEASE_LOCK_TIMEOUT};
use crate::admin_action::{AdminAction, Counts};
use crate::arguments::required;
use crate::error::{AdminError, ClaimsError, TransferError};
use crate::service::{durability, feed};
use crate::settings;
use crate::store::catalog;
use crate::tables::Tables;
use crate::tables::rows::leases::Ending;
use crate::tables::shared::lease_details::{self, LeaseDetails};
use crate::tables::shared::{leases, transfers};
use pg::jsonb::JsonText;
use pg::prelude::*;
use pg::settings::LockWaits;
use pg::spi::{Connection, View};
use pg::subtransaction::translate_error;
use pg::uuid::from_pg_uuid;
use pg::xact;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn force_rollback(
    cell_id: Option<i64>,
    lease_uuid: Option<PgUuid>,
    reason: Option<String>,
) -> Result<JsonText, ErrorReport> {
    Ok(force(cell_id, lease_uuid, reason)?)
}

fn force(cell_id: Option<i64>, lease: Option<PgUuid>, reason: Option<String>) -> Result<JsonText, ClaimsError> {
    let action = AdminAction::begin("force_rollback", reason)?;
    let cell_id = required(cell_id, "cell_id")?;
    let lease = from_pg_uuid(required(lease, "lease_uuid")?);
    action.with("cell_id", cell_id).with("lease_uuid", lease.to_string()).perform_counted(|tables, connection| {
        durability::promise();
        let end = || end(tables, connection, cell_id, lease);
        let end = || translate_error(Code::ERRCODE_LOCK_NOT_AVAILABLE, || ClaimsError::LeaseBusy, end);
        translate_error(Code::ERRCODE_T_R_DEADLOCK_DETECTED, || ClaimsError::LeaseBusy, end)
    })
}

/// Ends the lease with the locks of rollback_update. Unlike that function it fences nothing: a lease that is not outstanding is
/// an error.
fn end(
    tables: &dyn Tables,
    connection: &Connection,
    cell_id: i64,
    lease: Uuid,
) -> Result<(JsonText, Counts), ClaimsError> {
    let wait = Duration::from_millis(settings::wait_timeout().unsigned_abs());
    let deadline = Instant::now() + wait;
    leases::refuse_locked_tables(deadline)?;
    let of_cell = |details: &LeaseDetails| details.cell_id == cell_id;
    let Some(details) = lease_details::details(connection, lease, View::Latest).filter(of_cell) else {
        if !transfers::among(connection, &[lease]).is_empty() {
            return Err(TransferError::NotALease { transfer: lease }.into());
        }
        let existing =
            leases::existing(connection, &[lease], View::Latest).pop().filter(|existing| existing.cell_id == cell_id);
        let outcome = existing.and_then(|existing| existing.outcome).map(Ending::outcome);
        return Err(AdminError::NotOutstanding { lease, outcome }.into());
    };
    let _waits = LockWaits::until(deadline.max(Instant::now() + LEASE_LOCK_TIMEOUT));
    let catalog = catalog::current(connection);
    let to_end = ToEnd {
        cell_id,
        leases: &[lease],
        ending: Ending::Rollback,
        may_wait: true,
        claim_lock_timeout_ms: CLAIM_LOCK_TIMEOUT_MS,
        around: tables.surroundings(),
    };
    match end_leases(tables, connection, &catalog, to_end)? {
        1 => freed(tables, connection, lease, &details, &catalog.types),
        _ if xact::uses_transaction_snapshot() => Err(ClaimsError::StaleLease { lease }),
        // The cell has settled the lease meanwhile.
        _ => Err(ClaimsError::LeaseBusy),
    }
}

/// Returns the names that the rollback freed, and those that the cell keeps. A name in both lists was to be replaced.
fn freed(
    tables: &dyn Tables,
    connection: &Connection,
    lease: Uuid,
    details: &LeaseDetails,
    types: &Types,
) -> Result<(JsonText, Counts), ClaimsError> {
    let creates: Vec<Value> = serde_json::from_str(&details.creates)?;
    let kept: Vec<Value> = serde_json::from_str(&details.destroys)?;
    let is_kept = |record: &Value| kept.iter().any(|other| other["bucket"] == record["bucket"]);
    let freed: Vec<Value> = creates.into_iter().filter(|record| !is_kept(record)).collect();
    feed::tell_freed(tables, connection, details.cell_id, lease, &freed, types);
    let cell_xid = details.cell_xid.map(|xid| xid.0.to_string());
    let counts = vec![("freed", freed.len() as i64), ("kept", kept.len() as i64)];
    let answer = json!({
        "lease_uuid": lease.to_string(), "cell_id": details.cell_id, "cell_xid": cell_xid, "freed": freed, "kept": kept,
    });
    Ok((JsonText(answer.to_string()), counts))
}
