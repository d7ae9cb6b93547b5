//! `commit_update` and `rollback_update`: a lease ends exactly once.

use claims_model::batch::stored_buckets;
use pgrx::PgSqlErrorCode as Code;
use pgrx::Uuid as PgUuid;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use uuid::Uuid;

use super::explain::refuse_stale;
use crate::access;
use crate::error::ClaimsError;
use crate::pg::settings::limit_lock_waits;
use crate::pg::spi::{self, Connection, View};
use crate::pg::subtransaction::translate_error;
use crate::pg::xact;
use crate::settings;
use crate::store::catalog::{self, Catalog};
use crate::store::leases::{self, Ending, Held, Known, Locked, WhenLocked, from_pg_uuid};

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
        let catalog = catalog::current(connection);
        access::act_for(&catalog, cell_id)?;
        let lease = from_pg_uuid(access::given(lease, "lease_uuid")?);
        // Whoever holds the lease or its claims is not waited for: that is the error without DETAIL.
        translate_error(
            Code::ERRCODE_LOCK_NOT_AVAILABLE,
            || ClaimsError::LeaseBusy,
            || settle_one(connection, &catalog, cell_id, lease, ending),
        )
    })
}

/// How often another session may change the lease between two looks at it.
const ATTEMPTS: usize = 3;

/// Ends one lease, in this order: its row, its claims in bucket order. `true`: it did; `false`: it had ended so before.
fn settle_one(
    connection: &Connection,
    catalog: &Catalog,
    cell_id: i64,
    lease: Uuid,
    ending: Ending,
) -> Result<bool, ClaimsError> {
    let when_locked = limit_waits();
    for _ in 0..ATTEMPTS {
        let locked = leases::lock(connection, &[lease], cell_id, when_locked);
        if !locked.is_empty() {
            return end_locked(connection, catalog, &locked, ending).map(|()| true);
        }
        match leases::known(connection, &[lease], View::Latest).pop() {
            Some(known) if known.cell_id != cell_id => return Err(ClaimsError::UnknownLease { lease }),
            Some(Known { outcome: None, .. }) if xact::keeps_one_snapshot() => {
                return Err(ClaimsError::StaleLease { lease });
            }
            // It was begun or freed between the two looks: look again.
            Some(Known { outcome: None, .. }) => {}
            Some(known) => return ended_before(connection, &known, ending),
            None if ending == Ending::Commit => return Err(ClaimsError::UnknownLease { lease }),
            None if leases::fence(connection, lease, cell_id) => return Ok(true),
            None => {}
        }
    }
    Err(ClaimsError::LeaseBusy)
}

/// Takes `claims.wait_timeout` as the bound for the locks to come. Without it the lease is locked NOWAIT, and only the
/// function's own `lock_timeout` bounds the rest.
fn limit_waits() -> WhenLocked {
    match settings::wait_timeout() {
        0 => WhenLocked::Fail,
        milliseconds => {
            limit_lock_waits(milliseconds);
            WhenLocked::Wait
        }
    }
}

fn ended_before(connection: &Connection, known: &Known, ending: Ending) -> Result<bool, ClaimsError> {
    refuse_stale(connection, known)?;
    match known.outcome {
        Some(outcome) if outcome == ending => Ok(false),
        Some(Ending::Commit) => Err(ClaimsError::Committed { lease: known.uuid }),
        _ => Err(ClaimsError::RolledBack { lease: known.uuid }),
    }
}

/// Ends leases that this transaction has locked. One that does not hold what its payload names is an error: the caller
/// must let the (sub)transaction roll back.
pub fn end_locked(
    connection: &Connection,
    catalog: &Catalog,
    locked: &[Locked],
    ending: Ending,
) -> Result<(), ClaimsError> {
    let held = locked.iter().map(|lease| held_by(lease, catalog)).collect::<Result<Vec<_>, _>>()?;
    let expected: usize = held.iter().map(Held::count).sum();
    let (_, found) = leases::end(connection, ending, &held);
    let found = usize::try_from(found).unwrap_or(0);
    if found == expected {
        Ok(())
    } else {
        let lease = locked.first().map_or_else(Uuid::nil, |lease| lease.uuid);
        Err(ClaimsError::Damaged { lease, expected, found })
    }
}

/// The buckets that a lease holds, by its payload.
fn held_by<'a>(lease: &'a Locked, catalog: &Catalog) -> Result<Held<'a>, ClaimsError> {
    let damaged = |what: &str| ClaimsError::Unreadable { what: format!("Lease {}: {what}", lease.uuid) };
    let mut creates = lease.creates.as_ref().ok_or_else(|| damaged("payload has no create_records"))?.tokens();
    let mut destroys = lease.destroys.as_ref().ok_or_else(|| damaged("payload has no destroy_records"))?.tokens();
    let (creates, destroys) = stored_buckets(&mut creates, &mut destroys, &catalog.types)
        .map_err(|bad| damaged(&format!("{} cannot be read", bad.place)))?;
    Ok(Held { lease: lease.uuid, creates, destroys })
}
