//! `commit_update` and `rollback_update`: a lease ends exactly once.

use std::time::{Duration, Instant};

use claims_model::batch::stored_buckets;
use pgrx::PgSqlErrorCode as Code;
use pgrx::Uuid as PgUuid;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use uuid::Uuid;

use super::explain::refuse_stale;
use super::key::{self, Key};
use crate::access;
use crate::error::ClaimsError;
use crate::pg::clock::Moment;
use crate::pg::settings::LockWaits;
use crate::pg::spi::{self, Connection, View};
use crate::pg::subtransaction::translate_error;
use crate::pg::uuid::from_pg_uuid;
use crate::pg::xact;
use crate::settings;
use crate::store::catalog::{self, Catalog};
use crate::store::service::leases::{self, Ended, Ending, Held, Known};

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn commit_update(cell_id: Option<i64>, lease_uuid: Option<PgUuid>) -> Result<bool, ErrorReport> {
    Ok(settle(cell_id, lease_uuid, Ending::Commit)?)
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn rollback_update(cell_id: Option<i64>, lease_uuid: Option<PgUuid>) -> Result<bool, ErrorReport> {
    Ok(settle(cell_id, lease_uuid, Ending::Rollback)?)
}

fn settle(cell_id: Option<i64>, lease: Option<PgUuid>, ending: Ending) -> Result<bool, ClaimsError> {
    spi::connect(|connection| {
        let cell_id = access::given(cell_id, "cell_id")?;
        let lease = from_pg_uuid(access::given(lease, "lease_uuid")?);
        let catalog = catalog::current(connection);
        access::act_for(&catalog, cell_id)?;
        let deadline = Instant::now() + Duration::from_millis(settings::wait_timeout().unsigned_abs());
        // Both mean that another transaction is at the lease: the error without DETAIL.
        let settle = || settle_one(connection, &catalog, cell_id, lease, ending, deadline);
        let settle = || translate_error(Code::ERRCODE_LOCK_NOT_AVAILABLE, || ClaimsError::LeaseBusy, settle);
        translate_error(Code::ERRCODE_T_R_DEADLOCK_DETECTED, || ClaimsError::LeaseBusy, settle)
    })
}

/// How long to wait for the lease after a look that found nobody at it: for a table that is being extended, under load for
/// longer, or for somebody who came in just this moment.
const PATIENCE: Duration = Duration::from_millis(100);

/// Milliseconds that it waits for each lock once the lease is its own. No other session touches the claims then, so it
/// is the table that is being extended, under load for longer.
const PATIENCE_FOR_CLAIMS: i64 = 100;

/// Milliseconds to wait for a lock that is no other transaction's row.
pub const TABLE_EXTENSION: i64 = 1000;

/// How often another session may change the lease between two looks at it.
const ATTEMPTS: usize = 3;

/// Ends one lease, in this order: its row, its claims in bucket order. `true`: it did; `false`: it had ended so before.
fn settle_one(
    connection: &Connection,
    catalog: &Catalog,
    cell_id: i64,
    lease: Uuid,
    ending: Ending,
    deadline: Instant,
) -> Result<bool, ClaimsError> {
    leases::refuse_locked_tables(deadline)?;
    for _ in 0..ATTEMPTS {
        let _waits = LockWaits::until(deadline.max(Instant::now() + PATIENCE));
        if deadline <= Instant::now() && leases::is_in_flight(lease) {
            // Another cell's looks like an unknown one, also while that cell is at it.
            let known = leases::known(connection, &[lease], View::Latest).pop();
            let is_foreign = known.is_some_and(|known| known.cell_id != cell_id);
            return Err(if is_foreign { ClaimsError::UnknownLease { lease } } else { ClaimsError::LeaseBusy });
        }
        if end_leases(connection, catalog, &[lease], cell_id, ending, PATIENCE_FOR_CLAIMS)? == 1 {
            return Ok(true);
        }
        match leases::known(connection, &[lease], View::Latest).pop() {
            Some(known) if known.cell_id != cell_id => return Err(ClaimsError::UnknownLease { lease }),
            Some(Known { outcome: None, .. }) if xact::keeps_one_snapshot() => {
                return Err(ClaimsError::StaleLease { lease });
            }
            // It was begun or freed between the two looks: look again.
            Some(Known { outcome: None, .. }) => {}
            Some(known) => return ended_before(connection, &known, ending),
            None if ending == Ending::Rollback => {
                if leases::fence(connection, lease, cell_id) {
                    return Ok(true);
                }
            }
            // Unknown to all but, maybe, an open transaction that is beginning it.
            None => match key::look(connection, lease, cell_id) {
                Key::Free if leases::known(connection, &[lease], View::Latest).is_empty() => {
                    return Err(ClaimsError::UnknownLease { lease });
                }
                // It came and went between the two looks.
                Key::Free => {}
                Key::Busy => return Err(ClaimsError::LeaseBusy),
                Key::Outstanding => {}
            },
        }
    }
    Err(ClaimsError::LeaseBusy)
}

fn ended_before(connection: &Connection, known: &Known, ending: Ending) -> Result<bool, ClaimsError> {
    refuse_stale(connection, known)?;
    match known.outcome {
        Some(outcome) if outcome == ending => Ok(false),
        Some(Ending::Commit) => Err(ClaimsError::Committed { lease: known.uuid }),
        _ => Err(ClaimsError::RolledBack { lease: known.uuid }),
    }
}

/// Ends those of the leases that the cell has outstanding, and returns how many. One that does not hold what its payload
/// names is an error: the caller must let the (sub)transaction roll back. Each of the claims' locks is waited for up to
/// `patience` milliseconds.
pub fn end_leases(
    connection: &Connection,
    catalog: &Catalog,
    list: &[Uuid],
    cell_id: i64,
    ending: Ending,
    patience: i64,
) -> Result<usize, ClaimsError> {
    // The cell forgets the lease when it is told so: a crash must not undo that, whatever its `synchronous_commit` says.
    xact::commit_durably();
    let now = Moment::now();
    let ended = leases::end(connection, list, cell_id, ending, now);
    let held = ended.iter().map(|lease| held_by(lease, catalog)).collect::<Result<Vec<_>, _>>()?;
    let expected: usize = held.iter().map(Held::count).sum();
    let _waits = LockWaits::limit(patience);
    let found = if expected == 0 { 0 } else { leases::settle_claims(connection, ending, &held, now) };
    match held.first() {
        Some(Held { lease, .. }) if found != expected => Err(ClaimsError::Damaged { lease: *lease, expected, found }),
        _ => Ok(ended.len()),
    }
}

/// The buckets that a lease holds, by its payload.
fn held_by<'a>(lease: &'a Ended, catalog: &Catalog) -> Result<Held<'a>, ClaimsError> {
    let damaged = |what: &str| ClaimsError::Unreadable { what: format!("Lease {}: {what}", lease.uuid) };
    let mut creates = lease.creates.as_ref().ok_or_else(|| damaged("payload has no create_records"))?.tokens();
    let mut destroys = lease.destroys.as_ref().ok_or_else(|| damaged("payload has no destroy_records"))?.tokens();
    let (creates, destroys) = stored_buckets(&mut creates, &mut destroys, &catalog.types)
        .map_err(|bad| damaged(&format!("{} cannot be read", bad.place)))?;
    Ok(Held { lease: lease.uuid, creates, destroys })
}
