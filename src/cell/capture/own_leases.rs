//! Settles leases of this cell that conflict with its own next batch.
//!
//! `finish` or the next pass of recovery settles a lease whose local transaction has ended. Until then its names cannot be
//! changed again, even by the same cell. An application that knows nothing of leases should not notice that. So after such a
//! conflict the session settles the leases that are committed here. If that does not help, the lease may belong to a transaction
//! that was rolled back after its begin, for example by a failure at COMMIT, and that the application repeats. Then the
//! conflicting leases are judged as recovery would judge them.
//!
//! `limit` is the time that the service may take for all its answers to one batch.

use std::time::Duration;

use claims_model::judge::Verdict;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::cell::client::Service;
use crate::cell::recovery::judge::{self, JudgedLease};
use crate::error::{CellError, ClaimsError};
use crate::store::cell::tracked;
use pg::libpq::RemoteError;
use pg::spi::Connection;

/// Maximum number of leases that are settled at once, the newest ones.
const AT_ONCE: i64 = 1000;

/// A conflict with leases of the same cell.
pub struct OwnConflict {
    error: RemoteError,
    /// The buckets that these leases hold.
    buckets: Vec<Value>,
    /// Age of the oldest of these leases, in seconds.
    age: f64,
}

impl OwnConflict {
    /// Returns the service's error.
    pub fn into_error(self) -> ClaimsError {
        CellError::Refused(self.error).into()
    }
}

/// Returns the conflict if a begin failed because of leases of the same cell.
pub fn own_conflict(cell_id: i64, begun: Result<(), ClaimsError>) -> Result<Option<OwnConflict>, ClaimsError> {
    let Err(ClaimsError::Cell(CellError::Refused(error))) = begun else { return begun.map(|()| None) };
    let own = own_conflicts(&error, cell_id);
    if own.is_empty() {
        return Err(CellError::Refused(error).into());
    }
    let age = own.iter().filter_map(|conflict| conflict["lease_age_seconds"].as_f64()).fold(0.0, f64::max);
    let buckets = own.into_iter().map(|conflict| json!(conflict["bucket"])).collect();
    Ok(Some(OwnConflict { error, buckets, age }))
}

/// Returns whether a begin failed only because of conflicts that end by themselves.
pub fn is_temporary(error: &ClaimsError) -> bool {
    let ClaimsError::Cell(CellError::Refused(error)) = error else { return false };
    let conflicts = error.detail.as_deref().map(serde_json::from_str::<Vec<Value>>);
    let are_temporary = |conflicts: Vec<Value>| conflicts.iter().all(|conflict| conflict["retryable"] == true);
    error.is_lock_not_available() && conflicts.is_some_and(|read| read.is_ok_and(are_temporary))
}

/// Returns the conflicts in DETAIL with leases of the cell itself, if all conflicts are temporary.
fn own_conflicts(error: &RemoteError, cell_id: i64) -> Vec<Value> {
    let conflicts = || serde_json::from_str::<Vec<Value>>(error.detail.as_deref()?).ok();
    let is_own = |conflict: &Value| conflict["reason"] == "leased" && conflict["holder_cell_id"] == cell_id;
    let all = if error.is_lock_not_available() { conflicts() } else { None };
    all.unwrap_or_default().into_iter().filter(is_own).collect()
}

/// Has the service commit leases whose local transactions have committed, and forgets them here. Returns whether there are any.
pub fn settle_committed(
    connection: &Connection,
    service: &Service,
    cell_id: i64,
    limit: Duration,
) -> Result<bool, ClaimsError> {
    let leases = tracked::newest_tracked(connection, cell_id, service.name(), AT_ONCE);
    let states = tracked::states(connection, leases.into_iter().map(|lease| (lease, None)));
    // Leases that this transaction has tracked are left out: it may still roll back.
    let committed: Vec<_> = states.iter().filter(|state| state.tracked).map(|state| state.lease).collect();
    if committed.is_empty() {
        return Ok(false);
    }
    settle(connection, service, cell_id, &committed, &[], limit)?;
    Ok(true)
}

/// Has the service settle those conflicting leases that recovery would settle. Returns whether there are any. Earlier leases of
/// this transaction, and those of other open transactions, are not settled.
pub fn settle_ended(
    connection: &Connection,
    service: &Service,
    cell_id: i64,
    conflict: &OwnConflict,
    limit: Duration,
) -> Result<bool, ClaimsError> {
    let holders = candidates(service, cell_id, conflict, limit)?;
    let judged = judge::judge(connection, &holders);
    let with = |wanted: Verdict| -> Vec<Uuid> {
        judged.iter().filter(|(_, verdict)| *verdict == wanted).map(|(lease, _)| *lease).collect()
    };
    let (committed, ended) = (with(Verdict::Commit), with(Verdict::Rollback));
    if committed.is_empty() && ended.is_empty() {
        return Ok(false);
    }
    settle(connection, service, cell_id, &committed, &ended, limit)?;
    Ok(true)
}

/// Has the service settle leases, and forgets those that it has committed.
fn settle(
    connection: &Connection,
    service: &Service,
    cell_id: i64,
    commits: &[Uuid],
    rollbacks: &[Uuid],
    limit: Duration,
) -> Result<(), ClaimsError> {
    let settled = service.settle_own_leases(cell_id, commits, rollbacks, limit)?.into_iter();
    let committed: Vec<_> = settled
        .filter(|settled| settled.outcome.as_deref() == Some("committed"))
        .map(|settled| settled.lease)
        .collect();
    tracked::forget(connection, &committed, Some(&[cell_id]));
    Ok(())
}

/// Returns the leases that hold the buckets.
fn candidates(
    service: &Service,
    cell_id: i64,
    conflict: &OwnConflict,
    limit: Duration,
) -> Result<Vec<JudgedLease>, ClaimsError> {
    let holders = service.holders(cell_id, &conflict.buckets, conflict.age + 1.0, service.time_left(limit))?;
    Ok(holders.into_iter().map(JudgedLease::from).collect())
}
