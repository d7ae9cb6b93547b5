//! `judge_leases`: the verdict on leases that are outstanding at the service, by what this database knows about them.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use claims_model::judge::{self, Facts, LocalTransaction, Step, Verdict};
use claims_model::{BadInput, Problem};
use pgrx::PgSqlErrorCode as Code;
use pgrx::Uuid as PgUuid;
use pgrx::datum::Interval;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use uuid::Uuid;

use crate::access;
use crate::arguments;
use crate::cell::client::leases::OutstandingLease;
use crate::cell::{MAX_LEASES, at_most};
use crate::error::ClaimsError;
use crate::pg::jsonb::Jsonb;
use crate::pg::settings::LockWaits;
use crate::pg::spi::{self, Connection};
use crate::pg::subtransaction::subtransaction;
use crate::pg::uuid::pg_uuid;
use crate::pg::xact;
use crate::pg::xid8::Xid8;
use crate::settings;
use crate::store::cell::tracked::{self, Given};

/// Fences that one purge deletes.
const PURGE_BATCH: i64 = 10_000;

/// Errors that mean that another transaction is tracking or fencing the lease. The last one means, under
/// REPEATABLE READ, that such a transaction has just committed.
const CONTENTION_SQLSTATES: [Code; 3] =
    [Code::ERRCODE_LOCK_NOT_AVAILABLE, Code::ERRCODE_T_R_DEADLOCK_DETECTED, Code::ERRCODE_T_R_SERIALIZATION_FAILURE];

/// A lease that is to be judged.
pub struct JudgedLease {
    pub lease: Uuid,
    /// Older than stale_after.
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
    stale_after: default!(Option<Interval>, "'10 minutes'"),
) -> Result<TableIterator<'static, (name!(lease_uuid, PgUuid), name!(verdict, String))>, ErrorReport> {
    let judged = spi::connect(|connection| {
        let leases = access::given(leases, "leases")?;
        let stale_after = arguments::span(access::given(stale_after, "stale_after")?, "stale_after")?;
        let candidates = candidates(tracked::given(connection, leases, stale_after))?;
        Ok::<_, ClaimsError>(judge(connection, &candidates))
    })?;
    let row = |(lease, verdict): (Uuid, Verdict)| (pg_uuid(lease), verdict.name().to_owned());
    Ok(TableIterator::new(judged.into_iter().map(row)))
}

/// For schedulers of cells that do not run `reconcile`, which does it too.
#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn purge_fences() -> Result<i64, ErrorReport> {
    spi::connect(|connection| {
        access::administer()?;
        Ok::<_, ClaimsError>(tracked::purge_fences(connection, settings::outcome_retention(), PURGE_BATCH) as i64)
    })
    .map_err(ErrorReport::from)
}

/// The leases given, each once.
fn candidates(given: Vec<Given>) -> Result<Vec<JudgedLease>, ClaimsError> {
    at_most(given.len(), MAX_LEASES, "leases")?;
    let mut seen = HashSet::new();
    let mut candidates = Vec::with_capacity(given.len());
    for (index, Given { lease, stale, cell_xid }) in given.into_iter().enumerate() {
        let missing = |key: &str| BadInput::new(format!("leases[{index}].{key}"), Problem::Null);
        let lease = lease.ok_or_else(|| missing("lease_uuid"))?;
        let stale = stale.ok_or_else(|| missing("created_at"))?;
        if seen.insert(lease) {
            candidates.push(JudgedLease { lease, stale, cell_xid });
        }
    }
    Ok(candidates)
}

/// What is to be done about a lease, of which nothing is done yet.
pub fn step(connection: &Connection, candidate: &JudgedLease) -> Step {
    let found = steps(connection, std::slice::from_ref(candidate)).pop();
    found.map_or(Step::Wait, |(_, step)| step)
}

/// Judges each lease once, and fences those that need it.
pub fn judge(connection: &Connection, candidates: &[JudgedLease]) -> Vec<(Uuid, Verdict)> {
    let deadline = Instant::now() + Duration::from_millis(settings::wait_timeout().unsigned_abs());
    let steps = steps(connection, candidates);
    let to_fence = leases_where(&steps, |step| matches!(step, Step::FenceAndRollback | Step::FenceAndWait));
    let fenced = fence(connection, to_fence.clone(), deadline);
    // A lease that could not be fenced conflicts with a transaction that may have committed by now.
    let overtaken = to_fence.into_iter().filter(|lease| !fenced.contains(lease)).map(|lease| (lease, None));
    let tracked: HashSet<_> = tracked::sight(connection, overtaken)
        .into_iter()
        .filter(|sight| sight.tracked)
        .map(|sight| sight.lease)
        .collect();
    let verdict = |(lease, step): (Uuid, Step)| match tracked.contains(&lease) {
        true => (lease, Verdict::Commit),
        false => (lease, judge::after_fencing(step, fenced.contains(&lease))),
    };
    steps.into_iter().map(verdict).collect()
}

/// The order of the queries matters. Fences first: only those that were committed before this call count. Then the
/// state of the transactions, and only after that, in one newer snapshot, the tracked leases: a transaction that had
/// ended by then, and whose end that snapshot sees, has either left its row there or never will.
fn steps(connection: &Connection, candidates: &[JudgedLease]) -> Vec<(Uuid, Step)> {
    let leases: Vec<_> = candidates.iter().map(|candidate| candidate.lease).collect();
    let fences = tracked::fences(connection, &leases);
    let fenced: HashSet<_> = fences.into_iter().filter(|fence| !fence.is_own).map(|fence| fence.lease).collect();
    let transactions: Vec<_> = candidates
        .iter()
        .map(|candidate| candidate.cell_xid.map_or(LocalTransaction::Unknown, xact::progress))
        .collect();
    let sights = tracked::sight(connection, candidates.iter().map(|candidate| (candidate.lease, candidate.cell_xid)));
    let sights: HashMap<_, _> = sights.into_iter().map(|sight| (sight.lease, sight)).collect();
    let step = |(candidate, transaction): (&JudgedLease, LocalTransaction)| {
        let sight = sights.get(&candidate.lease);
        let facts = Facts {
            tracked: sight.is_some_and(|sight| sight.tracked),
            tracked_here: sight.is_some_and(|sight| sight.tracked_here),
            fenced: fenced.contains(&candidate.lease),
            transaction,
            end_is_visible: sight.is_some_and(|sight| sight.end_is_visible),
            stale: candidate.stale,
        };
        (candidate.lease, judge::judge(facts))
    };
    candidates.iter().zip(transactions).map(step).collect()
}

fn leases_where(steps: &[(Uuid, Step)], wanted: impl Fn(Step) -> bool) -> Vec<Uuid> {
    steps.iter().filter(|(_, step)| wanted(*step)).map(|(lease, _)| *lease).collect()
}

/// Fences leases and returns those for which it succeeded: all together, or if that fails one by one, in
/// uuid order. Locks their keys; waits for transactions that track them until the deadline.
fn fence(connection: &Connection, mut leases: Vec<Uuid>, deadline: Instant) -> HashSet<Uuid> {
    if leases.is_empty() {
        return HashSet::new();
    }
    leases.sort_unstable();
    let all = fence_within(connection, &leases, Duration::ZERO);
    let fenced: Vec<_> = all.unwrap_or_else(|| {
        let left = || deadline.saturating_duration_since(Instant::now());
        leases.iter().filter_map(|lease| fence_within(connection, &[*lease], left())).flatten().collect()
    });
    if !fenced.is_empty() {
        // A verdict of rollback relies on the fence: a crash must not undo it.
        xact::commit_durably();
    }
    fenced.into_iter().collect()
}

/// `None`: one of them conflicts with another transaction, and none was fenced.
fn fence_within(connection: &Connection, leases: &[Uuid], patience: Duration) -> Option<Vec<Uuid>> {
    let _waits = LockWaits::limit(i64::try_from(patience.as_millis()).unwrap_or(i64::MAX));
    subtransaction(&CONTENTION_SQLSTATES, || Ok::<_, ClaimsError>(tracked::fence(connection, leases))).ok()
}
