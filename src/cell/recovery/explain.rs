//! `explain_lease`: shows what recovery would decide about a lease now, and why. It settles and fences nothing.

use std::time::Duration;

use claims_model::judge::{Step, after_fencing};
use uuid::Uuid;

use super::judge::{self, JudgedLease};
use super::traces::{self, LocalTraces};
use crate::cell::client::{Service, unreachable};
use crate::kernel::arguments::required;
use crate::kernel::error::ClaimsError;
use crate::kernel::{access, catalog};
use pg::clock::Moment;
use pg::name::Name;
use pg::prelude::*;
use pg::spi::{self, Connection};
use pg::uuid::{from_pg_uuid, pg_uuid};
use pg::xact;

/// Timeout of a call to the service.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn explain_lease(
    cell_id: Option<i64>,
    service: Option<String>,
    lease_uuid: Option<PgUuid>,
) -> Result<
    TableIterator<
        'static,
        (
            name!(lease_uuid, PgUuid),
            name!(at_service, String),
            name!(tracked_at, Option<TimestampWithTimeZone>),
            name!(fenced_at, Option<TimestampWithTimeZone>),
            name!(xact_status, Option<String>),
            name!(pid, Option<i32>),
            name!(usename, Option<Name>),
            name!(application_name, Option<String>),
            name!(open_for, Option<Interval>),
            name!(prepared_gid, Option<String>),
            name!(verdict, String),
            name!(advice, String),
        ),
    >,
    ErrorReport,
> {
    let explained = spi::connect(|connection| {
        let cell_id = required(cell_id, "cell_id")?;
        let server = required(service, "service")?;
        let lease = from_pg_uuid(required(lease_uuid, "lease_uuid")?);
        access::act_here_for(&catalog::current(connection), cell_id)?;
        let service = Service::new(connection, &server, cell_id)?;
        explain_one(connection, &service, lease).map_err(unreachable)
    })?;
    let Explained { lease, at_service, local, xact_status, verdict, advice } = explained;
    let now = Moment::now();
    Ok(TableIterator::once((
        pg_uuid(lease),
        at_service,
        local.tracked_at.map(Into::into),
        local.fenced_at.map(Into::into),
        xact_status,
        local.pid,
        local.usename.map(Name),
        local.application_name,
        local.open_since.map(|since| Interval::from_seconds(since.seconds_until(now))),
        local.prepared_gid,
        verdict.to_owned(),
        advice.to_owned(),
    )))
}

struct Explained {
    lease: Uuid,
    at_service: String,
    local: LocalTraces,
    xact_status: Option<String>,
    verdict: &'static str,
    advice: &'static str,
}

fn explain_one(connection: &Connection, service: &Service, lease: Uuid) -> Result<Explained, ClaimsError> {
    let outcome = service.lease_outcomes(&[lease], ANSWER_TIMEOUT)?.pop().and_then(|(_, outcome)| outcome);
    let outstanding = match outcome.as_deref() {
        Some("outstanding") => service.outstanding(lease, ANSWER_TIMEOUT)?,
        _ => None,
    };
    let cell_xid = outstanding.as_ref().and_then(|outstanding| outstanding.cell_xid);
    let xact_status = cell_xid.and_then(xact::status);
    // As judge_leases does: read the state of the transaction before the tracked leases.
    let step = outstanding.map(|outstanding| judge::step(connection, &JudgedLease::from(outstanding)));
    let local = traces::local(connection, lease, cell_xid).unwrap_or_default();
    let (verdict, advice) = match (step, outcome.as_deref()) {
        (Some(step), _) => (after_fencing(step, true).name(), advice(step, &local)),
        (None, outcome) => settled(outcome, &local),
    };
    let at_service = outcome.unwrap_or_else(|| "unknown".to_owned());
    Ok(Explained { lease, at_service, local, xact_status, verdict, advice })
}

/// Returns the advice for an outstanding lease.
fn advice(step: Step, local: &LocalTraces) -> &'static str {
    match step {
        Step::Commit => "Its transaction committed here: the next pass of claims.reconcile() commits the lease.",
        Step::Rollback | Step::FenceAndRollback => {
            "No transaction can track it here any more: the next pass of claims.reconcile() rolls it back."
        }
        Step::FenceAndWait => {
            "It is old, and its transaction is unknown: the next pass of claims.reconcile() fences it, and the one after that rolls it back."
        }
        Step::Wait if local.prepared_gid.is_some() => {
            "Its transaction is prepared: end it with COMMIT PREPARED or ROLLBACK PREPARED and the gid."
        }
        Step::Wait if local.pid.is_some() => {
            "Its transaction is open: wait, or end the session with pg_terminate_backend() and the pid."
        }
        Step::Wait => "It is young, or its transaction has just ended: the next pass of claims.reconcile() decides.",
    }
}

/// Returns verdict and advice for a lease that the service has settled or does not know.
fn settled(outcome: Option<&str>, local: &LocalTraces) -> (&'static str, &'static str) {
    match (outcome, local.tracked_at.is_some()) {
        (Some("outstanding"), _) => ("wait", "It was settled at this moment: call this function again."),
        (Some("committed"), true) => {
            ("forget", "The service has committed it: the next pass of claims.reconcile() forgets it here.")
        }
        (Some("committed"), false) => {
            ("none", "The service has committed it, and this database has forgotten it. No action is needed.")
        }
        (_, true) => (
            "orphan",
            "The rows saved under it have no claims: claim them again with claims.verify(), then drop the lease with claims.forget_leases().",
        ),
        (Some(_), false) => {
            ("none", "The service has rolled it back, and nothing was saved under it here. No action is needed.")
        }
        (None, false) => ("none", "Neither side knows it: it never began, or its outcome was purged."),
    }
}
