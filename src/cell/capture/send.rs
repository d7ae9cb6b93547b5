//! `pending_batch`, `begin_pending` and `finish`: the batch of the current transaction, and its lease.

use std::time::{Duration, Instant};

use claims_model::capture::{Create, Pending};
use claims_model::outgoing::Outgoing;
use pgrx::Uuid as PgUuid;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use uuid::Uuid;

use super::lenient::LenientBatch;
use super::{log, own_leases};
use crate::access;
use crate::cell::client::{Service, afterwards, confirmed};
use crate::cell::track;
use crate::error::{CaptureError, CellError, ClaimsError};
use crate::pg::jsonb::JsonText;
use crate::pg::spi::{self, Connection};
use crate::pg::uuid::{from_pg_uuid, pg_uuid};
use crate::pg::wait;
use crate::pg::xact;
use crate::settings;
use crate::store::catalog;
use crate::store::cell::{concessions, tracked};

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
#[allow(clippy::type_complexity)]
fn pending_batch()
-> Result<TableIterator<'static, (name!(create_records, JsonText), name!(destroy_records, JsonText))>, ErrorReport> {
    access::refuse_restricted()?;
    let pending = log::pending()?;
    must_have_keys(&pending)?;
    let (creates, destroys) = Outgoing::new(pending).json().map_err(ClaimsError::from)?;
    Ok(TableIterator::once((JsonText(creates), JsonText(destroys))))
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn begin_pending(cell_id: Option<i64>, service: Option<String>) -> Result<Option<PgUuid>, ErrorReport> {
    spi::connect(|connection| {
        let cell_id = access::given(cell_id, "cell_id")?;
        access::act_here_for(&catalog::current(connection), cell_id)?;
        let service = access::given(service, "service")?;
        Ok::<_, ClaimsError>(send_pending(connection, cell_id, &service, false)?.map(pg_uuid))
    })
    .map_err(ErrorReport::from)
}

/// Sends the pending batch, and tracks its lease; `None`: nothing to send.
///
/// Any failure after the batch was sent makes the local transaction (or its savepoint) fail. Then the lease is not tracked,
/// and is rolled back: at once if the connection works, otherwise by recovery when this transaction has ended.
///
/// `automatic`: the session commits the lease after the COMMIT.
pub fn send_pending(
    connection: &Connection,
    cell_id: i64,
    service: &str,
    automatic: bool,
) -> Result<Option<Uuid>, ClaimsError> {
    let pending = log::pending()?;
    if pending.is_empty() {
        return Ok(None);
    }
    // A bucket that more rows have than before has several owners, possibly in different tables.
    let created_twice = pending.creates.iter().find(|create| create.rows > 1).map(|create| &create.bucket);
    if let Some(bucket) = created_twice.or(pending.doubled.first()) {
        let (bucket_type, value) = (bucket.bucket_type.to_string(), bucket.value.clone());
        return Err(CaptureError::ClaimedTwice { bucket_type, value }.into());
    }
    must_have_keys(&pending)?;
    let mut batch = LenientBatch::new(cell_id, pending);
    begin(connection, &Service::new(connection, service, cell_id)?, &mut batch)?;
    concessions::count(connection, batch.concessions());
    // None of the destroys was a claim of this cell.
    if batch.is_empty() {
        log::mark_sent();
        return Ok(None);
    }
    let lease = batch.lease;
    afterwards::begun(service, cell_id, lease, automatic);
    batch.confirm(connection)?;
    if automatic {
        forget_settled(connection, cell_id);
    }
    track::track_new(connection, lease, cell_id)?;
    log::mark_sent();
    Ok(Some(lease))
}

/// Forgets settled leases of earlier transactions of this session, if there are enough for a statement. Not with an old
/// snapshot, which could conflict with recovery forgetting them too.
fn forget_settled(connection: &Connection, cell_id: i64) {
    if xact::keeps_one_snapshot() {
        return;
    }
    let settled = confirmed::to_forget(cell_id);
    if !settled.is_empty() {
        tracked::forget(connection, &settled, Some(&[cell_id]));
    }
}

/// Begins a lease at the service; settles conflicting leases of the same cell first.
fn begin(connection: &Connection, service: &Service, batch: &mut LenientBatch) -> Result<(), ClaimsError> {
    let started = Instant::now();
    let left = || timeout().saturating_sub(started.elapsed());
    let cell_id = batch.cell_id;
    let mut begin = |timeout| own_leases::in_the_way(cell_id, batch.begin(connection, service, timeout));
    let Some(mut conflict) = begin(timeout())? else { return Ok(()) };
    if own_leases::settle_committed(connection, service, cell_id, left())? {
        match begin(left())? {
            None => return Ok(()),
            Some(again) => conflict = again,
        }
    }
    if !own_leases::settle_ended(connection, service, cell_id, &conflict, left())? {
        return Err(conflict.into_error());
    }
    batch.begin(connection, service, left())
}

fn timeout() -> Duration {
    Duration::from_millis(settings::service_timeout().unsigned_abs())
}

/// A claim without a subject or a source cannot be made.
fn must_have_keys(pending: &Pending) -> Result<(), ClaimsError> {
    for Create { bucket, ends, .. } in &pending.creates {
        let (key, type_name) = match (&ends.subject_id, &ends.source_id) {
            (None, _) => ("subject", &ends.subject_type),
            (_, None) => ("source", &ends.source_type),
            _ => continue,
        };
        return Err(CaptureError::NoKey {
            key,
            type_name: type_name.to_string(),
            bucket_type: bucket.bucket_type.to_string(),
            value: bucket.value.clone(),
        }
        .into());
    }
    Ok(())
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn finish(cell_id: Option<i64>, service: Option<String>, lease_uuid: Option<PgUuid>) -> Result<bool, ErrorReport> {
    xact::must_be_writable(c"claims.finish()");
    spi::connect(|connection| {
        let cell_id = access::given(cell_id, "cell_id")?;
        access::act_here_for(&catalog::current(connection), cell_id)?;
        let server = access::given(service, "service")?;
        let lease = from_pg_uuid(access::given(lease_uuid, "lease_uuid")?);
        let sight = tracked::sight(connection, std::iter::once((lease, None))).pop();
        if sight.as_ref().is_some_and(|sight| sight.tracked_here) {
            return Err(CaptureError::NotCommittedHere { lease }.into());
        }
        let is_tracked = sight.is_some_and(|sight| sight.tracked);
        let service = Service::new(connection, &server, cell_id)?;
        let by_this_call = match is_tracked {
            true => commit_patiently(&service, cell_id, lease),
            false => was_committed(&service, cell_id, lease),
        }?;
        tracked::forget(connection, &[lease], Some(&[cell_id]));
        Ok::<_, ClaimsError>(by_this_call)
    })
    .map_err(ErrorReport::from)
}

/// How long to wait for whoever else is settling the lease: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Recovery, the background worker or another call may be settling the lease at this moment, and means to do the same: that is over
/// soon, and then the lease was committed before. As long as the service may take to answer; after that it is the caller's.
fn commit_patiently(service: &Service, cell_id: i64, lease: Uuid) -> Result<bool, ClaimsError> {
    let deadline = Instant::now() + timeout();
    let mut pause = FIRST_PAUSE;
    loop {
        let answer = service.commit(cell_id, lease, deadline.saturating_duration_since(Instant::now()));
        let is_busy =
            matches!(&answer, Err(ClaimsError::Cell(CellError::Refused(error))) if error.is_lock_not_available());
        if !is_busy || deadline.saturating_duration_since(Instant::now()) <= 2 * pause {
            return answer;
        }
        wait::sleep(pause);
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}

/// A lease that is not tracked here may have been finished before, by recovery for example. Otherwise its local
/// transaction has not committed: committing it would claim names that no row has.
fn was_committed(service: &Service, cell_id: i64, lease: Uuid) -> Result<bool, ClaimsError> {
    let outcome = service.lease_outcomes(cell_id, &[lease], timeout())?.into_iter().find_map(|(_, outcome)| outcome);
    match outcome.as_deref() {
        Some("committed") => Ok(false),
        Some("rolled_back") => Err(ClaimsError::RolledBack { lease }),
        None => Err(ClaimsError::UnknownLease { lease }),
        Some(_) => Err(CaptureError::NotTracked { lease }.into()),
    }
}
