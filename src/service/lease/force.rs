//! `force_rollback`: rolls back a lease on behalf of an administrator.

use std::time::Instant;

use claims_model::types::Kind;
use claims_model::{Bucket, id};
use serde_json::{Value, json};
use uuid::Uuid;

use super::end::{ToEnd, end_leases};
use super::errors::LeaseError;
use super::settle::{CLAIM_LOCK_TIMEOUT_MS, LEASE_LOCK_TIMEOUT};
use crate::kernel::admin_action::{AdminAction, Counts};
use crate::kernel::arguments::required;
use crate::kernel::call::{CellCall, answer};
use crate::kernel::error::ClaimsError;
use crate::kernel::settings;
use crate::service::claims::{CLAIM_TABLES, Ending, leases};
use crate::service::read::outstanding_lease::{self, LeaseDetails};
use crate::service::transfer::transfers;
use crate::service::{durability, feed};
use pg::jsonb::JsonText;
use pg::prelude::*;
use pg::settings::LockWaits;
use pg::spi::View;
use pg::subtransaction::{LOCK_ERRORS, translate_error};
use pg::uuid::from_pg_uuid;
use pg::xact;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn force_rollback(
    cell_id: Option<i64>,
    lease_uuid: Option<PgUuid>,
    reason: Option<String>,
) -> Result<JsonText, ErrorReport> {
    answer(|| {
        let action = AdminAction::begin("force_rollback", reason)?;
        let cell_id = required(cell_id, "cell_id")?;
        let lease = from_pg_uuid(required(lease_uuid, "lease_uuid")?);
        action.with("cell_id", cell_id).with("lease_uuid", lease.to_string()).perform_counted(|call| {
            durability::promise();
            let call = &call.of_cell(cell_id);
            translate_error(LOCK_ERRORS, || LeaseError::Busy.into(), || end(call, lease))
        })
    })
}

/// Ends the lease with the locks of rollback_update. Unlike that function it fences nothing: a lease that is not outstanding is
/// an error.
fn end(call: &CellCall, lease: Uuid) -> Result<(JsonText, Counts), ClaimsError> {
    let (connection, cell_id) = (call.connection, call.cell_id);
    let deadline = Instant::now() + settings::wait_timeout();
    leases::refuse_locked_tables(deadline)?;
    let of_cell = |details: &LeaseDetails| details.creator_id == cell_id;
    let Some(details) = outstanding_lease::details(connection, lease, View::Latest).filter(of_cell) else {
        if !transfers::among(connection, &[lease]).is_empty() {
            return Err(LeaseError::NotALease { transfer: lease }.into());
        }
        let existing =
            leases::existing(connection, &[lease], View::Latest).pop().filter(|existing| existing.cell_id == cell_id);
        let outcome = existing.and_then(|existing| existing.outcome).map(Ending::outcome);
        return Err(LeaseError::NotOutstanding { lease, outcome }.into());
    };
    let _waits = LockWaits::until(deadline.max(Instant::now() + LEASE_LOCK_TIMEOUT));
    let to_end = ToEnd {
        leases: &[lease],
        ending: Ending::Rollback,
        may_wait: true,
        claim_lock_timeout_ms: CLAIM_LOCK_TIMEOUT_MS,
        around: call.tables.surroundings(),
        is_forced: true,
    };
    match end_leases(call, to_end)? {
        1 => freed(call, lease, &details),
        _ if xact::uses_transaction_snapshot() => Err(LeaseError::Stale { lease }.into()),
        // The cell has settled the lease meanwhile.
        _ => Err(LeaseError::Busy.into()),
    }
}

/// Returns the names that the rollback freed, and those that the cell keeps. The lease was replacing a name that is in both lists.
fn freed(call: &CellCall, lease: Uuid, details: &LeaseDetails) -> Result<(JsonText, Counts), ClaimsError> {
    let creates: Vec<Value> = serde_json::from_str(&details.creates)?;
    let kept: Vec<Value> = serde_json::from_str(&details.destroys)?;
    let is_kept = |record: &Value| kept.iter().any(|other| other["bucket"] == record["bucket"]);
    let freed: Vec<Value> = creates.into_iter().filter(|record| !is_kept(record)).collect();
    feed::tell_freed(call, lease, &freed);
    let (quarantined, freed) = divided(call, freed);
    let cell_xid = details.cell_xid.map(|xid| xid.0.to_string());
    let counts = vec![("freed", freed.len() as i64), ("kept", kept.len() as i64)];
    let mut answer = json!({
        "lease_uuid": lease.to_string(), "cell_id": details.creator_id, "cell_xid": cell_xid, "freed": freed, "kept": kept,
    });
    if !quarantined.is_empty() {
        answer["quarantined"] = quarantined.into();
    }
    Ok((JsonText(answer.to_string()), counts))
}

/// Divides records into those whose names are kept back now, and the others.
fn divided(call: &CellCall, records: Vec<Value>) -> (Vec<Value>, Vec<Value>) {
    let types = &call.catalog.types;
    let bucket = |record: &Value| {
        let bucket = &record["bucket"];
        let bucket_type = id::type_from_text(bucket["type"].as_str()?, Kind::Bucket, types).ok()?;
        Some(Bucket { bucket_type, value: bucket["value"].as_str()?.to_owned().into() })
    };
    let buckets: Vec<Bucket> = records.iter().filter_map(bucket).collect();
    let standing = CLAIM_TABLES.of(call).standing(call.connection, &buckets.iter().collect::<Vec<_>>());
    let is_kept = |record: &Value| bucket(record).is_some_and(|bucket| standing.contains_key(&bucket));
    records.into_iter().partition(is_kept)
}
