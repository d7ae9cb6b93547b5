//! Leases of this cell that conflict with its own next batch.
//!
//! A lease whose local transaction has ended is settled by `finish` or by the next pass of recovery. Until then its names
//! cannot be changed again, even by the same cell. An application that knows nothing of leases should not notice that:
//! so after such a conflict the leases that are known to be committed here are settled at once. If that does not help, the
//! lease may belong to a transaction that was rolled back after the begin, by a failure at its COMMIT for
//! example, and that the application repeats: the conflicting leases are judged as recovery would.

use std::time::Duration;

use claims_model::judge::Verdict;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::cell::client::Service;
use crate::cell::recovery::judge::{self, JudgedLease};
use crate::error::{CellError, ClaimsError};
use crate::pg::libpq::RemoteError;
use crate::pg::spi::Connection;
use crate::store::cell::attributes;
use crate::store::cell::tracked;

/// The number of leases that are settled at once, the newest ones.
const AT_ONCE: i64 = 1000;

/// A conflict with leases of the same cell.
pub struct OwnConflict {
    error: RemoteError,
    /// The buckets that they hold.
    buckets: Vec<Value>,
    /// How old the oldest of them is, in seconds.
    age: f64,
}

impl OwnConflict {
    /// The service's error.
    pub fn into_error(self) -> ClaimsError {
        CellError::Refused(self.error).into()
    }
}

/// The conflict with leases of the same cell, if that is why a begin failed.
pub fn in_the_way(cell_id: i64, begun: Result<(), ClaimsError>) -> Result<Option<OwnConflict>, ClaimsError> {
    let Err(ClaimsError::Cell(CellError::Refused(error))) = begun else { return begun.map(|()| None) };
    let own = own_conflicts(&error, cell_id);
    if own.is_empty() {
        return Err(CellError::Refused(error).into());
    }
    let age = own.iter().filter_map(|conflict| conflict["lease_age_seconds"].as_f64()).fold(0.0, f64::max);
    let buckets = own.into_iter().map(|conflict| json!(conflict["bucket"])).collect();
    Ok(Some(OwnConflict { error, buckets, age }))
}

/// The conflicts in DETAIL with leases of the cell itself, if there are only temporary ones.
fn own_conflicts(error: &RemoteError, cell_id: i64) -> Vec<Value> {
    let conflicts = || serde_json::from_str::<Vec<Value>>(error.detail.as_deref()?).ok();
    let is_own = |conflict: &Value| conflict["reason"] == "leased" && conflict["holder_cell_id"] == cell_id;
    let all = if error.is_lock_not_available() { conflicts() } else { None };
    all.unwrap_or_default().into_iter().filter(is_own).collect()
}

/// Has the service commit leases whose local transactions have committed, and forgets them here. `false`: there are none.
pub fn settle_committed(
    connection: &Connection,
    service: &Service,
    cell_id: i64,
    timeout: Duration,
) -> Result<bool, ClaimsError> {
    let leases = attributes::newest_tracked(connection, cell_id, AT_ONCE);
    let sights = tracked::sight(connection, leases.into_iter().map(|lease| (lease, None)));
    // Not those of this very transaction, which may still be rolled back.
    let committed: Vec<_> = sights.iter().filter(|sight| sight.tracked).map(|sight| sight.lease).collect();
    if committed.is_empty() {
        return Ok(false);
    }
    settle(connection, service, cell_id, &committed, &[], timeout)?;
    Ok(true)
}

/// Has the service settle the conflicting leases that recovery would settle. `false`: none of them.
///
/// Earlier leases of this transaction, and those of other open transactions, are not settled.
pub fn settle_ended(
    connection: &Connection,
    service: &Service,
    cell_id: i64,
    conflict: &OwnConflict,
    timeout: Duration,
) -> Result<bool, ClaimsError> {
    let in_the_way = candidates(service, cell_id, conflict, timeout)?;
    let judged = judge::judge(connection, &in_the_way);
    let with = |wanted: Verdict| -> Vec<Uuid> {
        judged.iter().filter(|(_, verdict)| *verdict == wanted).map(|(lease, _)| *lease).collect()
    };
    let (committed, ended) = (with(Verdict::Commit), with(Verdict::Rollback));
    if committed.is_empty() && ended.is_empty() {
        return Ok(false);
    }
    settle(connection, service, cell_id, &committed, &ended, timeout)?;
    Ok(true)
}

/// Has the service end leases, and forgets those that it has committed.
fn settle(
    connection: &Connection,
    service: &Service,
    cell_id: i64,
    commits: &[Uuid],
    rollbacks: &[Uuid],
    timeout: Duration,
) -> Result<(), ClaimsError> {
    let settled = service.settle_leases(cell_id, commits, rollbacks, timeout)?.into_iter();
    let committed: Vec<_> = settled
        .filter(|settled| settled.outcome.as_deref() == Some("committed"))
        .map(|settled| settled.lease)
        .collect();
    tracked::forget(connection, &committed, Some(&[cell_id]));
    Ok(())
}

/// The leases that hold the buckets.
fn candidates(
    service: &Service,
    cell_id: i64,
    conflict: &OwnConflict,
    timeout: Duration,
) -> Result<Vec<JudgedLease>, ClaimsError> {
    let buckets = Value::Array(conflict.buckets.clone()).to_string();
    let holders = service.holders(cell_id, &buckets, conflict.age + 1.0, timeout)?;
    Ok(holders.into_iter().map(JudgedLease::from).collect())
}
