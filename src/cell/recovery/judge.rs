//! `judge_leases`: returns the verdict on leases that are outstanding at the service, from what this database stores about them.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use claims_model::judge::{self, Facts, LocalTransaction, Step, Verdict};
use claims_model::{BadInput, Problem};
use pgrx::PgSqlErrorCode as Code;
use uuid::Uuid;

use crate::cell::client::leases::OutstandingLease;
use crate::cell::tracked::{self, LeaseArgument};
use crate::cell::{MAX_LEASES, at_most};
use crate::kernel::error::ClaimsError;
use crate::kernel::{access, arguments, settings};
use pg::jsonb::Jsonb;
use pg::prelude::*;
use pg::settings::LockWaits;
use pg::spi::{self, Connection};
use pg::subtransaction::subtransaction;
use pg::uuid::pg_uuid;
use pg::xact;
use pg::xid8::Xid8;

/// Maximum number of fences that one purge deletes.
const PURGE_BATCH: i64 = 10_000;

/// Errors by which an insert fails because another transaction tracks or fences the lease. Under REPEATABLE READ a
/// serialization failure means that such a transaction has just committed.
const CONTENTION_SQLSTATES: [Code; 3] =
    [Code::ERRCODE_LOCK_NOT_AVAILABLE, Code::ERRCODE_T_R_DEADLOCK_DETECTED, Code::ERRCODE_T_R_SERIALIZATION_FAILURE];

pub struct JudgedLease {
    pub lease: Uuid,
    /// Whether it is older than stale_after.
    pub stale: bool,
    /// The local transaction that began it.
    pub cell_xid: Option<Xid8>,
}

impl From<OutstandingLease> for JudgedLease {
    fn from(OutstandingLease { lease, stale, cell_xid }: OutstandingLease) -> Self {
        JudgedLease { lease, stale, cell_xid }
    }
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn judge_leases(
    leases: Option<Jsonb>,
    stale_after: default!(
        Option<Interval>,
        "COALESCE(NULLIF(pg_catalog.current_setting('claims.stale_after', true), ''), '10 minutes')::pg_catalog.interval"
    ),
) -> Result<TableIterator<'static, (name!(lease_uuid, PgUuid), name!(verdict, String))>, ErrorReport> {
    let judged = spi::connect(|connection| {
        let leases = arguments::required(leases, "leases")?;
        let stale_after = arguments::span(arguments::required(stale_after, "stale_after")?, "stale_after")?;
        let candidates = candidates(tracked::lease_arguments(connection, leases, stale_after))?;
        Ok::<_, ClaimsError>(judge(connection, &candidates))
    })?;
    let row = |(lease, verdict): (Uuid, Verdict)| (pg_uuid(lease), verdict.name().to_owned());
    Ok(TableIterator::new(judged.into_iter().map(row)))
}

/// Deletes old fences, for schedulers of cells that do not run `reconcile`, which also deletes them.
#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn purge_fences() -> Result<i64, ErrorReport> {
    spi::connect(|connection| {
        access::administer()?;
        Ok::<_, ClaimsError>(tracked::purge_fences(connection, settings::outcome_retention(), PURGE_BATCH) as i64)
    })
    .map_err(ErrorReport::from)
}

/// Returns the leases of the argument, each once.
fn candidates(arguments: Vec<LeaseArgument>) -> Result<Vec<JudgedLease>, ClaimsError> {
    at_most(arguments.len(), MAX_LEASES, "leases")?;
    let mut seen = HashSet::new();
    let mut candidates = Vec::with_capacity(arguments.len());
    for (index, LeaseArgument { lease, stale, cell_xid }) in arguments.into_iter().enumerate() {
        let missing = |key: &str| BadInput::new(format!("leases[{index}].{key}"), Problem::Null);
        let lease = lease.ok_or_else(|| missing("lease_uuid"))?;
        let stale = stale.ok_or_else(|| missing("created_at"))?;
        if seen.insert(lease) {
            candidates.push(JudgedLease { lease, stale, cell_xid });
        }
    }
    Ok(candidates)
}

/// Returns the next step for a lease, without taking it.
pub fn step(connection: &Connection, candidate: &JudgedLease) -> Step {
    let found = steps(connection, std::slice::from_ref(candidate)).pop();
    found.map_or(Step::Wait, |(_, step)| step)
}

/// Judges each lease once, and fences those that need it.
pub fn judge(connection: &Connection, candidates: &[JudgedLease]) -> Vec<(Uuid, Verdict)> {
    let deadline = Instant::now() + settings::wait_timeout();
    let steps = steps(connection, candidates);
    let to_fence = leases_where(&steps, |step| matches!(step, Step::FenceAndRollback | Step::FenceAndWait));
    let fenced = fence(connection, to_fence.clone(), deadline);
    // A lease that could not be fenced conflicts with a transaction, which may have committed by now.
    let overtaken = to_fence.into_iter().filter(|lease| !fenced.contains(lease)).map(|lease| (lease, None));
    let tracked: HashSet<_> = tracked::states(connection, overtaken)
        .into_iter()
        .filter(|state| state.tracked)
        .map(|state| state.lease)
        .collect();
    let verdict = |(lease, step): (Uuid, Step)| match tracked.contains(&lease) {
        true => (lease, Verdict::Commit),
        false => (lease, judge::after_fencing(step, fenced.contains(&lease))),
    };
    steps.into_iter().map(verdict).collect()
}

/// Decides the next step for each lease.
///
/// The order of the queries matters. It reads the fences first: only those that were committed before this call count. Then it
/// reads the state of the transactions, and after that, in one newer snapshot, the tracked leases. If a transaction had ended by
/// then and that snapshot sees its end, its row is there now or never will be.
fn steps(connection: &Connection, candidates: &[JudgedLease]) -> Vec<(Uuid, Step)> {
    let leases: Vec<_> = candidates.iter().map(|candidate| candidate.lease).collect();
    let fences = tracked::fences(connection, &leases);
    let fenced: HashSet<_> = fences.into_iter().filter(|fence| !fence.is_own).map(|fence| fence.lease).collect();
    let transactions: Vec<_> = candidates
        .iter()
        .map(|candidate| LocalTransaction::of_status(candidate.cell_xid.and_then(xact::status).as_deref()))
        .collect();
    let states = tracked::states(connection, candidates.iter().map(|candidate| (candidate.lease, candidate.cell_xid)));
    let states: HashMap<_, _> = states.into_iter().map(|state| (state.lease, state)).collect();
    let step = |(candidate, transaction): (&JudgedLease, LocalTransaction)| {
        let state = states.get(&candidate.lease);
        let facts = Facts {
            tracked: state.is_some_and(|state| state.tracked),
            tracked_here: state.is_some_and(|state| state.tracked_here),
            fenced: fenced.contains(&candidate.lease),
            transaction,
            end_is_visible: state.is_some_and(|state| state.end_is_visible),
            stale: candidate.stale,
        };
        (candidate.lease, judge::judge(facts))
    };
    candidates.iter().zip(transactions).map(step).collect()
}

fn leases_where(steps: &[(Uuid, Step)], wanted: impl Fn(Step) -> bool) -> Vec<Uuid> {
    steps.iter().filter(|(_, step)| wanted(*step)).map(|(lease, _)| *lease).collect()
}

/// Fences leases, in uuid order, and returns those that it fenced: all together, or one by one if that fails. It locks their keys,
/// and waits until the deadline for transactions that track them.
fn fence(connection: &Connection, mut leases: Vec<Uuid>, deadline: Instant) -> HashSet<Uuid> {
    if leases.is_empty() {
        return HashSet::new();
    }
    leases.sort_unstable();
    let all = fence_within(connection, &leases, Duration::ZERO);
    let fenced: Vec<_> = all.unwrap_or_else(|| {
        let remaining = || deadline.saturating_duration_since(Instant::now());
        leases.iter().filter_map(|lease| fence_within(connection, &[*lease], remaining())).flatten().collect()
    });
    if !fenced.is_empty() {
        // The rollback of a lease relies on its fence, which must survive a crash.
        xact::commit_durably();
    }
    fenced.into_iter().collect()
}

/// Fences leases together. Returns `None`, and fences none, if one of them conflicts with another transaction.
fn fence_within(connection: &Connection, leases: &[Uuid], lock_timeout: Duration) -> Option<Vec<Uuid>> {
    let _waits = LockWaits::limit(i64::try_from(lock_timeout.as_millis()).unwrap_or(i64::MAX));
    subtransaction(&CONTENTION_SQLSTATES, || Ok::<_, ClaimsError>(tracked::fence(connection, leases))).ok()
}
