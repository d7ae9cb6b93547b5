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
use claims_model::outgoing::{Refusal, RefusedBucket};
use uuid::Uuid;

use super::conflicts::refusals_of;
use crate::cell::client::Service;
use crate::cell::client::settlement::Settled;
use crate::cell::recovery::judge::{self, JudgedLease};
use crate::cell::tracked;
use crate::kernel::error::ClaimsError;
use pg::libpq::RemoteError;
use pg::spi::Connection;

/// Maximum number of leases that are settled at once, the newest ones.
const AT_ONCE: i64 = 1000;

/// A conflict with leases of the same cell.
pub struct OwnConflict {
    pub error: ClaimsError,
    /// The buckets that these leases hold.
    buckets: Vec<RefusedBucket>,
    /// Age of the oldest of these leases when the service answered, in seconds.
    age: f64,
}

/// Returns the conflict if a begin failed because of leases of the same cell.
pub fn own_conflict(cell_id: i64, begun: Result<(), ClaimsError>) -> Result<Option<OwnConflict>, ClaimsError> {
    let Err(error) = begun else { return Ok(None) };
    let is_own = |refusal: &Refusal| refusal.reason == "leased" && refusal.holder_cell_id == Some(cell_id);
    let own: Vec<_> = lock_refusals(&error).into_iter().flatten().filter(is_own).collect();
    if own.is_empty() {
        return Err(error);
    }
    let age = own.iter().filter_map(|refusal| refusal.lease_age_seconds).fold(0.0, f64::max);
    Ok(Some(OwnConflict { error, buckets: own.into_iter().map(|refusal| refusal.bucket).collect(), age }))
}

/// Returns whether a begin failed only because of conflicts that end by themselves.
pub fn is_temporary(error: &ClaimsError) -> bool {
    lock_refusals(error).is_some_and(|refusals| refusals.iter().all(|refusal| refusal.retryable))
}

/// Returns the conflicts of an error by which the service says that all of them are temporary.
fn lock_refusals(error: &ClaimsError) -> Option<Vec<Refusal>> {
    let is_temporary = error.refusal().is_some_and(RemoteError::is_lock_not_available);
    refusals_of(error).filter(|_| is_temporary)
}

/// Has the service commit leases whose local transactions have committed, and forgets them here. Returns whether there are any.
pub fn settle_committed(connection: &Connection, service: &Service, limit: Duration) -> Result<bool, ClaimsError> {
    let leases = tracked::newest_tracked(connection, service.cell_id, service.name(), AT_ONCE);
    let states = tracked::states(connection, leases.into_iter().map(|lease| (lease, None)));
    // Leases that this transaction has tracked are left out: it may still roll back.
    let committed: Vec<_> = states.iter().filter(|state| state.tracked).map(|state| state.lease).collect();
    if committed.is_empty() {
        return Ok(false);
    }
    settle(connection, service, (&committed, &[]), limit)?;
    Ok(true)
}

/// Has the service settle those conflicting leases that recovery would settle. Returns whether there are any. Earlier leases of
/// this transaction, and those of other open transactions, are not settled.
pub fn settle_ended(
    connection: &Connection,
    service: &Service,
    conflict: &OwnConflict,
    limit: Duration,
) -> Result<bool, ClaimsError> {
    // The conflict and this answer each arrive within `limit`, so no lease of the conflict is older when the service looks for it.
    let max_age = conflict.age + 2.0 * limit.as_secs_f64();
    let holders = service.holders(&conflict.buckets, max_age, service.time_left(limit))?.into_iter();
    let holders: Vec<_> = holders.map(JudgedLease::from).collect();
    let judged = judge::judge(connection, &holders);
    let with = |wanted: Verdict| -> Vec<Uuid> {
        judged.iter().filter(|(_, verdict)| *verdict == wanted).map(|(lease, _)| *lease).collect()
    };
    let (committed, ended) = (with(Verdict::Commit), with(Verdict::Rollback));
    if committed.is_empty() && ended.is_empty() {
        return Ok(false);
    }
    settle(connection, service, (&committed, &ended), limit)?;
    Ok(true)
}

/// Has the service commit and roll back leases, and forgets those that it has committed.
fn settle(
    connection: &Connection,
    service: &Service,
    leases: (&[Uuid], &[Uuid]),
    limit: Duration,
) -> Result<(), ClaimsError> {
    let settled = service.settle_own_leases(leases, limit)?.into_iter();
    let committed: Vec<_> = settled.filter(Settled::is_committed).map(|settled| settled.lease).collect();
    tracked::forget(connection, &committed, Some(&[service.cell_id]));
    Ok(())
}
