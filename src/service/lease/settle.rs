//! `commit_update` and `rollback_update`: settle a lease, which ends exactly once.

use std::time::{Duration, Instant};

use claims_model::mode::Need;
use uuid::Uuid;

use super::end::{ToEnd, end_leases};
use super::errors::{LeaseError, notice_of_fence};
use super::key::{self, KeyState};
use super::repeat::refuse_stale;
use crate::kernel::call::CellCall;
use crate::kernel::error::ClaimsError;
use crate::kernel::{arguments, settings};
use crate::service::claims::{Ending, ExistingLease, LEASE_TABLES, leases};
use crate::service::transfer::transfers;
use crate::service::{admission, audit, counters, durability, feed};
use pg::prelude::*;
use pg::settings::LockWaits;
use pg::spi::{Connection, View};
use pg::subtransaction::{LOCK_ERRORS, translate_error};
use pg::uuid::from_pg_uuid;
use pg::xact;

#[pg_extern(schema = "claims")]
fn commit_update(cell_id: Option<i64>, lease_uuid: Option<PgUuid>) -> Result<bool, ErrorReport> {
    Ok(settle(cell_id, lease_uuid, Ending::Commit, Flush::Now)? != LeaseEnd::Before)
}

/// Commits a lease without a flush, for sessions of cells. They forget the lease after a later begin of the same process, which is flushed, or, behind a
/// pooler, after they have settled many leases once more in one call.
#[pg_extern(schema = "claims")]
fn commit_unflushed(cell_id: Option<i64>, lease_uuid: Option<PgUuid>) -> Result<bool, ErrorReport> {
    Ok(settle(cell_id, lease_uuid, Ending::Commit, Flush::Later)? != LeaseEnd::Before)
}

#[pg_extern(schema = "claims")]
fn rollback_update(cell_id: Option<i64>, lease_uuid: Option<PgUuid>) -> Result<bool, ErrorReport> {
    let settled = settle(cell_id, lease_uuid, Ending::Rollback, Flush::Now)?;
    // A mistyped uuid is fenced like one that has not arrived yet, hence the NOTICE. It is raised here, after SPI is closed,
    // because sending it checks for interrupts.
    if let LeaseEnd::Fenced(lease) = settled {
        notice_of_fence(lease);
    }
    Ok(settled != LeaseEnd::Before)
}

/// The time at which the end of a lease is flushed to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flush {
    /// Before the call returns.
    Now,
    /// With the next flush. A crash before it undoes the settlement: the lease is outstanding again.
    Later,
}

/// The result of settling a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeaseEnd {
    /// This call has settled it.
    Now,
    /// An earlier call had settled it in the same way.
    Before,
    /// The lease was unknown, and can no longer begin.
    Fenced(Uuid),
}

fn settle(cell_id: Option<i64>, lease: Option<PgUuid>, ending: Ending, flush: Flush) -> Result<LeaseEnd, ClaimsError> {
    let began = Instant::now();
    let cell_id = arguments::required(cell_id, "cell_id")?;
    let lease = from_pg_uuid(arguments::required(lease, "lease_uuid")?);
    CellCall::run_as_owner(Some(cell_id), began, |call| {
        admission::admit(call, Need::Settle)?;
        let deadline = Instant::now() + settings::wait_timeout();
        // The cell forgets the lease after this answer, so a crash must not undo the settlement whatever its `synchronous_commit`
        // is. If commits must be replicated, or the change feed records them, a commit without flush is not possible either.
        let may_flush_later = call.tables.may_commit_unflushed() && !settings::require_synchronous() && !feed::is_on();
        match flush {
            Flush::Later if may_flush_later => xact::commit_unflushed(),
            _ => durability::promise(),
        }
        // Both errors mean that another transaction holds the lease. The new error has no DETAIL.
        let settle = || settle_one(call, lease, ending, deadline);
        let settled = translate_error(LOCK_ERRORS, || LeaseError::Busy.into(), settle)?;
        counters::settle_took(cell_id, call.began.elapsed());
        Ok(settled)
    })
}

/// Lock timeout for a lease that no transaction seems to hold: long enough for relation extension, which takes longer under load,
/// and for a transaction that came after the probe.
pub const LEASE_LOCK_TIMEOUT: Duration = Duration::from_millis(100);

/// Lock timeout in milliseconds for each claim once the lease is locked. No other session changes the claims then, so the wait is
/// for relation extension.
pub const CLAIM_LOCK_TIMEOUT_MS: i64 = 100;

/// Number of attempts: another session may change the lease between two probes of it.
const ATTEMPTS: usize = 3;

/// Settles one lease. Locks in this order: its row, its claims in bucket order.
fn settle_one(call: &CellCall, lease: Uuid, ending: Ending, deadline: Instant) -> Result<LeaseEnd, ClaimsError> {
    let (tables, connection, cell_id) = (call.tables, call.connection, call.cell_id);
    leases::refuse_locked_tables(deadline)?;
    for _ in 0..ATTEMPTS {
        let _waits = LockWaits::until(deadline.max(Instant::now() + LEASE_LOCK_TIMEOUT));
        let (may_wait, around) = (deadline > Instant::now(), tables.surroundings());
        let claim_lock_timeout_ms = CLAIM_LOCK_TIMEOUT_MS;
        let leases = &[lease];
        let to_end = ToEnd { leases, ending, may_wait, claim_lock_timeout_ms, around, is_forced: false };
        match end_leases(call, to_end) {
            Ok(1) => return Ok(LeaseEnd::Now),
            // Another cell's lease must look like an unknown one, even while that cell is settling it.
            Err(error) if matches!(error.of(), Some(LeaseError::Busy)) => {
                let existing = leases::existing(connection, &[lease], View::Latest).pop();
                let is_foreign = existing.is_some_and(|existing| existing.cell_id != cell_id);
                return Err(if is_foreign { LeaseError::Unknown { lease }.into() } else { LeaseError::Busy.into() });
            }
            ended => ended?,
        };
        match leases::existing(connection, &[lease], View::Latest).pop() {
            Some(existing) if existing.cell_id != cell_id => return Err(LeaseError::Unknown { lease }.into()),
            Some(ExistingLease { outcome: None, .. }) if xact::uses_transaction_snapshot() => {
                return Err(LeaseError::Stale { lease }.into());
            }
            // The lease began, or its lock was released, between the two queries: try again.
            Some(ExistingLease { outcome: None, .. }) => {}
            Some(existing) => return ended_before(connection, &existing, ending),
            // A transfer's uuid is no lease of a cell.
            None if !transfers::among(connection, &[lease]).is_empty() => {
                return Err(LeaseError::Unknown { lease }.into());
            }
            None if ending == Ending::Rollback => {
                admission::admit_fence(call)?;
                if LEASE_TABLES.of(call).fence(connection, lease, cell_id) {
                    counters::fenced(cell_id, 1);
                    audit::fenced(call, &[lease]);
                    return Ok(LeaseEnd::Fenced(lease));
                }
            }
            // The lease is unknown, unless an open transaction is beginning it.
            None => match key::probe(call, lease) {
                KeyState::Free if leases::existing(connection, &[lease], View::Latest).is_empty() => {
                    return Err(LeaseError::Unknown { lease }.into());
                }
                // The lease began and ended between the two queries.
                KeyState::Free => {}
                KeyState::Busy => return Err(LeaseError::Busy.into()),
                KeyState::Outstanding => {}
            },
        }
    }
    Err(LeaseError::Busy.into())
}

fn ended_before(connection: &Connection, existing: &ExistingLease, ending: Ending) -> Result<LeaseEnd, ClaimsError> {
    refuse_stale(connection, existing)?;
    // The session that settled the lease may not have flushed its commit.
    xact::flush_commits();
    match existing.outcome {
        Some(outcome) if outcome == ending => Ok(LeaseEnd::Before),
        Some(Ending::Commit) => Err(LeaseError::Committed { lease: existing.uuid }.into()),
        _ => Err(LeaseError::RolledBack { lease: existing.uuid }.into()),
    }
}
