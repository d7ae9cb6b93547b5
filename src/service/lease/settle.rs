//! `commit_update` and `rollback_update`: a lease ends exactly once.

use std::time::{Duration, Instant};

use claims_model::mode::Need;
use pgrx::PgSqlErrorCode as Code;
use pgrx::Uuid as PgUuid;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use uuid::Uuid;

use super::end::{ToEnd, end_leases};
use super::key::{self, KeyState};
use super::repeat::refuse_stale;
use crate::access;
use crate::distribution;
use crate::error::{ClaimsError, notice_of_fence};
use crate::pg::settings::LockWaits;
use crate::pg::spi::{self, Connection, View};
use crate::pg::subtransaction::translate_error;
use crate::pg::uuid::from_pg_uuid;
use crate::pg::xact;
use crate::service::engine::{self, Key};
use crate::service::{admission, counters, durability, feed};
use crate::settings;
use crate::store::catalog::{self, Catalog};
use crate::store::service::leases::{self, Ending, KnownLease};
use crate::store::service::transfers;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn commit_update(cell_id: Option<i64>, lease_uuid: Option<PgUuid>) -> Result<bool, ErrorReport> {
    Ok(settle(cell_id, lease_uuid, Ending::Commit, Flush::Now)? != LeaseEnd::Before)
}

/// For sessions of cells, which settle many leases once more, all in one call, before they forget them.
#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn commit_unflushed(cell_id: Option<i64>, lease_uuid: Option<PgUuid>) -> Result<bool, ErrorReport> {
    Ok(settle(cell_id, lease_uuid, Ending::Commit, Flush::Later)? != LeaseEnd::Before)
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn rollback_update(cell_id: Option<i64>, lease_uuid: Option<PgUuid>) -> Result<bool, ErrorReport> {
    let settled = settle(cell_id, lease_uuid, Ending::Rollback, Flush::Now)?;
    // A mistyped uuid is fenced like one that has not arrived yet: hence the notice. It is raised here, where SPI is closed,
    // because sending it checks for interrupts.
    if let LeaseEnd::Fenced(lease) = settled {
        notice_of_fence(lease);
    }
    Ok(settled != LeaseEnd::Before)
}

/// When the end of a lease is flushed to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flush {
    /// Before the caller is told.
    Now,
    /// With whatever is flushed next. A crash before that undoes it: the lease is outstanding again.
    Later,
}

/// The result of settling a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeaseEnd {
    /// It was settled by this call.
    Now,
    /// It had been settled in the same way before.
    Before,
    /// It was unknown, and can no longer begin.
    Fenced(Uuid),
}

fn settle(cell_id: Option<i64>, lease: Option<PgUuid>, ending: Ending, flush: Flush) -> Result<LeaseEnd, ClaimsError> {
    let began = Instant::now();
    spi::connect(|connection| {
        let cell_id = access::given(cell_id, "cell_id")?;
        let lease = from_pg_uuid(access::given(lease, "lease_uuid")?);
        let catalog = catalog::current(connection);
        access::act_for(&catalog, cell_id)?;
        admission::admit(&catalog, cell_id, Need::Settle)?;
        let deadline = Instant::now() + Duration::from_millis(settings::wait_timeout().unsigned_abs());
        // The cell forgets the lease when it is told so: a crash must not undo that, whatever its `synchronous_commit` says. Where
        // commits must be replicated, or the change feed has told of them, none is left that is not.
        if flush == Flush::Now || distribution::is_spread() || settings::require_synchronous() || feed::is_on() {
            durability::promise();
        } else {
            xact::commit_unflushed();
        }
        // Both mean that another transaction holds the lease: the error without DETAIL.
        let settle = || settle_one(connection, &catalog, cell_id, lease, ending, deadline);
        let settle = || translate_error(Code::ERRCODE_LOCK_NOT_AVAILABLE, || ClaimsError::LeaseBusy, settle);
        let settled = translate_error(Code::ERRCODE_T_R_DEADLOCK_DETECTED, || ClaimsError::LeaseBusy, settle)?;
        counters::settle_took(cell_id, began.elapsed());
        Ok(settled)
    })
}

/// How long to wait for the lease if no transaction was found to hold it: for relation extension, which takes longer under
/// load, or for a transaction that came after the look.
pub const PATIENCE: Duration = Duration::from_millis(100);

/// Milliseconds to wait for each lock on claims once the lease is locked. No other session changes the claims then, so such
/// a wait is for relation extension.
pub const PATIENCE_FOR_CLAIMS: i64 = 100;

/// How often another session may change the lease between two looks at it.
const ATTEMPTS: usize = 3;

/// Ends one lease, in this order: its row, its claims in bucket order.
fn settle_one(
    connection: &Connection,
    catalog: &Catalog,
    cell_id: i64,
    lease: Uuid,
    ending: Ending,
    deadline: Instant,
) -> Result<LeaseEnd, ClaimsError> {
    leases::refuse_locked_tables(deadline)?;
    for _ in 0..ATTEMPTS {
        let _waits = LockWaits::until(deadline.max(Instant::now() + PATIENCE));
        let looks_first = deadline <= Instant::now() && engine::current().looks_cheaply();
        if looks_first && engine::current().contended(connection, Key::Lease(lease)) {
            // Another cell's lease looks like an unknown one, also while that cell is settling it.
            let known = leases::known(connection, &[lease], View::Latest).pop();
            let is_foreign = known.is_some_and(|known| known.cell_id != cell_id);
            return Err(if is_foreign { ClaimsError::UnknownLease { lease } } else { ClaimsError::LeaseBusy });
        }
        let to_end = ToEnd { cell_id, leases: &[lease], ending, patience: PATIENCE_FOR_CLAIMS };
        if end_leases(connection, catalog, to_end)? == 1 {
            return Ok(LeaseEnd::Now);
        }
        match leases::known(connection, &[lease], View::Latest).pop() {
            Some(known) if known.cell_id != cell_id => return Err(ClaimsError::UnknownLease { lease }),
            Some(KnownLease { outcome: None, .. }) if xact::keeps_one_snapshot() => {
                return Err(ClaimsError::StaleLease { lease });
            }
            // It began, or its lock was released, between the two queries: try again.
            Some(KnownLease { outcome: None, .. }) => {}
            Some(known) => return ended_before(connection, &known, ending),
            // What a transfer holds is no lease of any cell's.
            None if !transfers::among(connection, &[lease]).is_empty() => {
                return Err(ClaimsError::UnknownLease { lease });
            }
            None if ending == Ending::Rollback => {
                admission::admit_fence(connection, catalog, cell_id)?;
                if engine::current().fence(connection, lease, cell_id) {
                    counters::fenced(cell_id, 1);
                    return Ok(LeaseEnd::Fenced(lease));
                }
            }
            // Unknown to all but, maybe, an open transaction that is beginning it.
            None => match key::look(connection, lease, cell_id) {
                KeyState::Free if leases::known(connection, &[lease], View::Latest).is_empty() => {
                    return Err(ClaimsError::UnknownLease { lease });
                }
                // It began and ended between the two queries.
                KeyState::Free => {}
                KeyState::Busy => return Err(ClaimsError::LeaseBusy),
                KeyState::Outstanding => {}
            },
        }
    }
    Err(ClaimsError::LeaseBusy)
}

fn ended_before(connection: &Connection, known: &KnownLease, ending: Ending) -> Result<LeaseEnd, ClaimsError> {
    refuse_stale(connection, known)?;
    // By whom it was settled may not have waited for that.
    xact::flush_commits();
    match known.outcome {
        Some(outcome) if outcome == ending => Ok(LeaseEnd::Before),
        Some(Ending::Commit) => Err(ClaimsError::Committed { lease: known.uuid }),
        _ => Err(ClaimsError::RolledBack { lease: known.uuid }),
    }
}
