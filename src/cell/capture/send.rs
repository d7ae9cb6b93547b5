//! `pending_batch`, `begin_pending` and `finish`: show, begin and commit the batch of the current transaction.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use claims_model::backoff::Backoff;
use claims_model::capture::{Create, Pending};
use claims_model::lease_group;
use claims_model::origin::Declared;
use claims_model::outgoing::Outgoing;
use claims_model::routes::{Route, Routes};
use pgrx::pg_sys::Oid;
use uuid::Uuid;

use super::errors::CaptureError;
use super::leases::{self, Begun, Leases, sizes};
use super::observe::Observed;
use super::{conflicts, log, own_database, slow_search, uniques};
use crate::cell::claimed::authority;
use crate::cell::client::{Service, confirmed};
use crate::cell::tracked::{self, TrackedLease};
use crate::cell::{routes, track};
use crate::kernel::call::Call;
use crate::kernel::error::ClaimsError;
use crate::kernel::{access, arguments, catalog};
use crate::service::lease::errors::LeaseError;
use pg::jsonb::JsonText;
use pg::libpq::RemoteError;
use pg::prelude::*;
use pg::roles;
use pg::spi::{self, Connection};
use pg::uuid::{from_pg_uuid, pg_uuid};
use pg::{wait, xact};

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn pending_batch()
-> Result<TableIterator<'static, (name!(create_records, JsonText), name!(destroy_records, JsonText))>, ErrorReport> {
    access::refuse_restricted()?;
    let mut pending = log::pending()?;
    // Automatic mode claims values of unique columns in this database, whatever the caller sends.
    if let Some(routes) = spi::connect(routes::automatic) {
        pending.creates.retain(|create| !routes.uniques.contains(&*create.bucket.bucket_type));
        pending.destroys.retain(|destroy| !routes.uniques.contains(&*destroy.bucket.bucket_type));
    }
    must_have_keys(&pending)?;
    let (creates, destroys) = Outgoing::new(pending).json();
    Ok(TableIterator::once((JsonText(creates), JsonText(destroys))))
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn begin_pending(cell_id: Option<i64>, service: Option<String>) -> Result<Option<PgUuid>, ErrorReport> {
    let lease = spi::connect(|connection| {
        let cell_id = arguments::required(cell_id, "cell_id")?;
        access::act_here_for(&catalog::current(connection), cell_id)?;
        let service = arguments::required(service, "service")?;
        slow_search::forget();
        let automatic = routes::automatic(connection);
        let routes = Rc::new(Routes::of_call(automatic.as_deref(), cell_id, &service));
        let lease = send_pending(connection, &routes, false)?;
        // The caller expects one lease for all of its changes, and commits next.
        if !log::has_nothing_to_send()? {
            return Err(CaptureError::ChangedMeanwhile.into());
        }
        Ok::<_, ClaimsError>(lease.map(pg_uuid))
    });
    slow_search::warn();
    lease.map_err(ErrorReport::from)
}

/// Most batches that automatic mode sends at one point of a transaction. A condition that writes rows at each evaluation
/// would have it send for ever.
const SENDING_ROUNDS: usize = 10;

/// Sends pending changes, and those that are captured meanwhile, until nothing is pending. For automatic mode.
pub fn send_all_pending(connection: &Connection, routes: &Rc<Routes>) -> Result<(), ClaimsError> {
    slow_search::forget();
    for _ in 0..SENDING_ROUNDS {
        send_pending(connection, routes, true)?;
        if log::has_nothing_to_send()? {
            return Ok(());
        }
    }
    Err(CaptureError::ChangesWithoutEnd { rounds: SENDING_ROUNDS }.into())
}

/// Sends the pending changes, and tracks their leases. Returns the first lease, or `None` if there is nothing to send.
///
/// Changes that a condition makes while this runs stay pending.
///
/// Any failure after a batch was sent makes the local transaction (or its savepoint) fail. Then no lease is tracked, and all of them
/// are rolled back: at once if the connection works, otherwise by recovery when this transaction has ended.
///
/// `automatic`: the session commits the leases after the COMMIT. Who calls this calls [`slow_search::warn`] afterwards.
fn send_pending(connection: &Connection, routes: &Rc<Routes>, automatic: bool) -> Result<Option<Uuid>, ClaimsError> {
    if log::is_all_sent() && log::is_all_observed() {
        return Ok(None);
    }
    let (sending, mut pending) = log::begin_sending(routes)?;
    let observed = Observed::begin(connection, &mut pending, routes);
    let lease = send_enforced(connection, routes, automatic, pending)?;
    log::mark_sent(sending, routes);
    observed.send(&Call::over(connection), routes)?;
    Ok(lease)
}

/// Sends changes of enforced names: to all services at once, and then to the tables of this database.
fn send_enforced(
    connection: &Connection,
    routes: &Routes,
    automatic: bool,
    pending: Pending,
) -> Result<Option<Uuid>, ClaimsError> {
    let cell_id = routes.cell_id;
    must_be_of_own_cell(connection, &pending)?;
    let parts = routes.divide(pending);
    for (_, pending) in &parts {
        // A bucket that more rows need than before has several owners, perhaps in different tables.
        let created_twice = pending.creates.iter().find(|create| create.rows > 1);
        if let Some(create) = created_twice.or(pending.doubled.first()) {
            let violation = uniques::saved_twice(connection, create);
            return Err(violation.unwrap_or_else(|| conflicts::claimed_twice(cell_id, create)));
        }
        must_have_keys(pending)?;
    }
    let (mut here, mut services) = (None, Vec::new());
    for (place, pending) in parts {
        match place {
            Route::Here => here = Some(Outgoing::new(pending)),
            Route::Service(server) => services.push((server, Outgoing::new(pending))),
        }
    }
    let (servers, outgoing): (Vec<_>, Vec<_>) = services.into_iter().unzip();
    let services = servers.iter().map(|server| Service::new(connection, server, cell_id));
    let services = services.collect::<Result<Vec<_>, _>>()?;
    let leases = services.iter().map(|service| Leases { connection, service, automatic });
    let begun = leases::begin_all(leases.zip(outgoing).collect())?;
    if let Some(outgoing) = here {
        own_database::claim_all(&Call::over(connection), cell_id, outgoing)?;
    }
    // None if all destroys were skipped.
    let first = begun.first().map(|begun| begun.lease);
    if automatic && first.is_some() {
        forget_settled(connection, cell_id);
    }
    for Begun { lease, service } in &begun {
        track::track_new(connection, *lease, cell_id, service)?;
    }
    Ok(first)
}

/// Where automatic mode claims names in this database, raises an error for a change of a table that may not claim names for its cell.
fn must_be_of_own_cell(connection: &Connection, pending: &Pending) -> Result<(), ClaimsError> {
    let Some(own_cell) = authority::own_cell(connection) else { return Ok(()) };
    let mut accepted: Option<&Rc<Declared>> = None;
    for declared in pending.ends().filter_map(|ends| ends.origin.0.as_ref()) {
        if accepted.is_some_and(|accepted| Rc::ptr_eq(accepted, declared)) {
            continue;
        }
        if !own_cell.accepts_declared(declared) {
            let (table, owner) = (declared.table_name.clone(), roles::name(Oid::from(declared.owner)));
            return Err(CaptureError::TableOfAnother { table, cell_id: own_cell.cell_id, owner }.into());
        }
        accepted = Some(declared);
    }
    Ok(())
}

/// Forgets settled leases of earlier transactions of this session, if there are enough for a statement. It does nothing with an
/// old snapshot, in which forgetting could conflict with recovery.
fn forget_settled(connection: &Connection, cell_id: i64) {
    if xact::uses_transaction_snapshot() {
        return;
    }
    let settled = confirmed::to_forget(cell_id);
    if !settled.is_empty() {
        tracked::forget_own(connection, settled, cell_id);
    }
}

/// Raises an error if a create has no subject or no source.
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
        let cell_id = arguments::required(cell_id, "cell_id")?;
        access::act_here_for(&catalog::current(connection), cell_id)?;
        let server = arguments::required(service, "service")?;
        let lease = from_pg_uuid(arguments::required(lease_uuid, "lease_uuid")?);
        let state = tracked::states(connection, std::iter::once((lease, None))).pop();
        if state.as_ref().is_some_and(|state| state.tracked_here) {
            return Err(CaptureError::NotCommittedHere { lease }.into());
        }
        let is_tracked = state.is_some_and(|state| state.tracked);
        let group = Group::of(connection, cell_id, lease);
        // This one is the last to be forgotten, so a repeat finds the others again.
        let others: Vec<_> = group.others.iter().map(|(lease, _)| *lease).collect();
        let mut failure = None;
        for (other, service) in &group.others {
            // One service may be dead: the leases of the others are committed nevertheless.
            let committed = Service::new(connection, service.as_deref().unwrap_or(&server), cell_id)
                .and_then(|service| commit_patiently(&service, *other));
            failure = failure.or(committed.err());
        }
        let service = Service::new(connection, group.service.as_deref().unwrap_or(&server), cell_id)?;
        let by_this_call = match is_tracked {
            true => commit_patiently(&service, lease),
            false => was_committed(connection, &service, lease),
        }?;
        if let Some(error) = failure {
            return Err(error);
        }
        tracked::forget(connection, &[others.as_slice(), &[lease]].concat(), Some(&[cell_id]));
        Ok::<_, ClaimsError>(by_this_call)
    })
    .map_err(ErrorReport::from)
}

/// The leases of a transaction, which `finish` commits together.
struct Group {
    /// The service of the lease that was named, if it is known.
    service: Option<String>,
    /// The other leases, if the one that was named is the first. Each has its service, if that is known.
    others: Vec<(Uuid, Option<String>)>,
}

impl Group {
    /// Finds the leases with uuids like that of the named one, which one transaction has tracked. Of a lease that is not tracked any more
    /// that transaction is unknown, and its uuid must be that of a first one.
    fn of(connection: &Connection, cell_id: i64, lease: Uuid) -> Self {
        let (lowest, highest) = lease_group::bounds(lease);
        let (own, others): (Vec<_>, Vec<_>) = tracked::between(connection, lowest, highest, cell_id)
            .into_iter()
            .partition(|tracked: &TrackedLease| tracked.lease == lease);
        let own = own.into_iter().next();
        let is_of_group = |other: &TrackedLease| own.as_ref().map_or(lease == lowest, |own| own.by == other.by);
        let others: Vec<_> = others.into_iter().filter(is_of_group).collect();
        let is_first = others.iter().all(|other| other.lease > lease);
        let others = others.into_iter().filter(|_| is_first).map(|other| (other.lease, other.service)).collect();
        Group { service: own.and_then(|own| own.service), others }
    }
}

/// Pauses between attempts to commit a lease that another session is settling.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Commits a lease. If recovery, the background worker or another call is settling it at this moment, that commits it, too, and
/// ends soon: this call waits for it, up to the service timeout, and then raises the error.
fn commit_patiently(service: &Service, lease: Uuid) -> Result<bool, ClaimsError> {
    let deadline = Instant::now() + leases::timeout(sizes::of(lease));
    let mut pauses = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
    loop {
        let answer = service.commit(lease, deadline.saturating_duration_since(Instant::now()));
        let refusal = answer.as_ref().err().and_then(ClaimsError::refusal);
        let is_busy = refusal.is_some_and(RemoteError::is_lock_not_available);
        let pause = pauses.pause();
        if !is_busy || deadline.saturating_duration_since(Instant::now()) <= 2 * pause {
            return answer;
        }
        wait::sleep(pause);
    }
}

/// Returns `false` for a lease that is not tracked here and was committed before, for example by recovery. Otherwise its local
/// transaction has not committed, and committing the lease would claim names that no row has: that is an error. A lease that is not
/// tracked any more does not tell its service: if the one that was named does not know it, those of automatic mode are asked.
fn was_committed(connection: &Connection, service: &Service, lease: Uuid) -> Result<bool, ClaimsError> {
    let mut outcome = outcome_at(service, lease)?;
    let routes = routes::automatic(connection);
    let others: BTreeSet<Rc<str>> = routes.iter().flat_map(|routes| routes.services()).collect();
    for other in others.iter().filter(|other| &***other != service.name()) {
        if outcome.is_some() {
            break;
        }
        outcome = outcome_at(&Service::new(connection, other, service.cell_id)?, lease)?;
    }
    match outcome.as_deref() {
        Some("committed") => Ok(false),
        Some("rolled_back") => Err(LeaseError::RolledBack { lease }.into()),
        None => Err(LeaseError::Unknown { lease }.into()),
        Some(_) => Err(CaptureError::NotTracked { lease }.into()),
    }
}

/// Returns how a service ended a lease; `None` if it does not know the lease.
fn outcome_at(service: &Service, lease: Uuid) -> Result<Option<String>, ClaimsError> {
    let outcomes = service.lease_outcomes(&[lease], leases::timeout(1))?;
    Ok(outcomes.into_iter().find_map(|(_, outcome)| outcome))
}
