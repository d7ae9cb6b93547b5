//! `settle_leases`: settles many leases in one call. A lease that fails does not stop the others.

use std::collections::{HashMap, HashSet};

use claims_model::mode::Need;
use claims_model::{BadInput, Problem};
use pgrx::PgSqlErrorCode as Code;
use uuid::Uuid;

use super::end::{ToEnd, end_leases};
use super::errors::LeaseError;
use super::key::{self, KeyState};
use crate::kernel::arguments;
use crate::kernel::call::CellCall;
use crate::kernel::error::{ClaimsError, TablesError};
use crate::service::claims::{Ending, ExistingLease, LEASE_TABLES, leases};
use crate::service::transfer::transfers;
use crate::service::{admission, audit, counters, durability};
use pg::prelude::*;
use pg::settings::LockWaits;
use pg::spi::View;
use pg::subtransaction::{LOCK_ERRORS, Parted, Undone, in_one, translate_error};
use pg::uuid::pg_uuid;
use pg::xact;

/// Maximum number of leases in one call.
const MAX_LEASES: usize = 10_000;

/// Lock timeout in milliseconds, whatever claims.wait_timeout is: busy leases are reported.
const NO_WAIT_MS: i64 = 0;

/// The outcome of a lease that was unknown when it was rolled back.
const FENCED: &str = "fenced";

/// The result for one lease: its outcome, and whether this call has settled it.
type SettledAs = (Option<&'static str>, bool);

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn settle_leases(
    cell_id: Option<i64>,
    commit_leases: default!(Option<Vec<Option<PgUuid>>>, "'{}'"),
    rollback_leases: default!(Option<Vec<Option<PgUuid>>>, "'{}'"),
) -> Result<
    TableIterator<'static, (name!(lease_uuid, PgUuid), name!(outcome, Option<String>), name!(settled, bool))>,
    ErrorReport,
> {
    let answers = CellCall::run(cell_id, |call| {
        // array_agg() over no rows returns NULL.
        let (commits, rollbacks) = (commit_leases.unwrap_or_default(), rollback_leases.unwrap_or_default());
        admission::admit(call, Need::Settle)?;
        let (commits, rollbacks) = checked_lists(commits, rollbacks)?;
        let _waits = LockWaits::limit(NO_WAIT_MS);
        let settle = || {
            let mut answers = settle_list(call, &commits, Ending::Commit);
            answers.extend(settle_list(call, &rollbacks, Ending::Rollback));
            // The cell forgets leases after this answer, so a crash must not undo their settlement, even if other sessions have
            // settled them.
            durability::promise();
            let tells_of_others = answers.iter().any(|(_, (outcome, settled))| !settled && outcome.is_some());
            let is_flushed_by_commit = answers.iter().any(|(_, (_, settled))| *settled);
            if tells_of_others && !is_flushed_by_commit {
                xact::flush_commits();
            }
            Ok::<_, ClaimsError>(answers)
        };
        translate_error(&[Code::ERRCODE_LOCK_NOT_AVAILABLE], || TablesError::Locked.into(), settle)
    })?;
    let row = |(lease, (outcome, settled)): (Uuid, SettledAs)| (pg_uuid(lease), outcome.map(str::to_owned), settled);
    Ok(TableIterator::new(answers.into_iter().map(row)))
}

/// Returns both lists without repeats, in their original order.
fn checked_lists(
    commits: Vec<Option<PgUuid>>,
    rollbacks: Vec<Option<PgUuid>>,
) -> Result<(Vec<Uuid>, Vec<Uuid>), ClaimsError> {
    let total = commits.len() + rollbacks.len();
    if total > MAX_LEASES {
        return Err(
            BadInput::new("settle_leases", Problem::TooMany { what: "leases", got: total, limit: MAX_LEASES }).into()
        );
    }
    let commits = uuids(commits, "commit_leases")?;
    let rollbacks = uuids(rollbacks, "rollback_leases")?;
    let committed: HashSet<_> = commits.iter().collect();
    match rollbacks.iter().find(|lease| committed.contains(lease)) {
        Some(lease) => Err(LeaseError::ContradictoryOutcomes { lease: *lease }.into()),
        None => Ok((commits, rollbacks)),
    }
}

/// Returns the uuids of an argument, each once.
fn uuids(list: Vec<Option<PgUuid>>, name: &str) -> Result<Vec<Uuid>, ClaimsError> {
    let (mut uuids, mut seen) = (arguments::uuids(list, name)?, HashSet::new());
    uuids.retain(|uuid| seen.insert(*uuid));
    Ok(uuids)
}

/// Settles one list: all leases that are neither locked nor damaged, together. Locks lease rows in uuid order, skipping locked
/// ones, then claims in bucket order.
fn settle_list(call: &CellCall, list: &[Uuid], ending: Ending) -> Vec<(Uuid, SettledAs)> {
    if list.is_empty() {
        return Vec::new();
    }
    let around = call.tables.surroundings();
    // Ends those of the leases that no other transaction has locked. Fails if one of them fails.
    let settle = |list: &[Uuid]| {
        let free = LEASE_TABLES.of(call).lock_free(call.connection, list, call.cell_id);
        if !free.is_empty() {
            let (may_wait, claim_lock_timeout_ms) = (true, NO_WAIT_MS);
            let leases = free.as_slice();
            end_leases(call, ToEnd { leases, ending, may_wait, claim_lock_timeout_ms, around, is_forced: false })?;
        }
        Ok::<_, ClaimsError>(free.into_iter().collect())
    };
    let Parted { result: ended, failed } = in_one(LOCK_ERRORS, list, settle);
    let settled: HashSet<Uuid> = ended.unwrap_or_default();
    // Any other error of the body means a damaged lease.
    let is_damaged = |undone: &Undone<ClaimsError>| matches!(undone, Undone::ByBody(error) if !matches!(error.of(), Some(LeaseError::Busy)));
    let damaged: HashSet<_> = failed.iter().filter(|(_, undone)| is_damaged(undone)).map(|(lease, _)| *lease).collect();
    let others: Vec<_> = list.iter().copied().filter(|lease| !settled.contains(lease)).collect();
    let mut existing: HashMap<_, _> = leases::existing(call.connection, &others, View::Latest)
        .into_iter()
        .map(|existing| (existing.uuid, existing))
        .collect();
    let unknown: Vec<_> = others.iter().copied().filter(|lease| !existing.contains_key(lease)).collect();
    // A transfer's uuid is no lease of a cell.
    let no_leases = if unknown.is_empty() { HashSet::new() } else { transfers::among(call.connection, &unknown) };
    // A fence that exceeds the rate is reported as busy.
    let may_fence = |lease: &Uuid| !existing.contains_key(lease) && admission::admit_fence(call).is_ok();
    let is_to_fence = |lease: &Uuid| ending == Ending::Rollback && !no_leases.contains(lease) && may_fence(lease);
    let to_fence: Vec<_> = unknown.iter().copied().filter(is_to_fence).collect();
    let fenced = if ending == Ending::Rollback { fence(call, &to_fence) } else { HashSet::new() };
    let answer = |lease: &Uuid| {
        let answer = match settled.contains(lease) {
            true => (Some(ending.outcome()), true),
            false if fenced.contains(lease) => (Some(FENCED), true),
            // A damaged lease stays outstanding: commit_update and rollback_update report its damage.
            false if no_leases.contains(lease) => (None, false),
            false if damaged.contains(lease) => (Some("outstanding"), false),
            false => outcome_of_other(call, *lease, ending, existing.remove(lease)),
        };
        (*lease, answer)
    };
    list.iter().map(answer).collect()
}

/// Fences unknown leases, and returns those that it has fenced. Locks their keys in the given order.
fn fence(call: &CellCall, leases: &[Uuid]) -> HashSet<Uuid> {
    let cell_id = call.cell_id;
    let fence = |leases: &[Uuid]| {
        let fenced = leases.iter().all(|lease| LEASE_TABLES.of(call).fence(call.connection, *lease, cell_id));
        if !fenced {
            return Err(());
        }
        counters::fenced(cell_id, leases.len());
        audit::fenced(call, leases);
        Ok(leases.iter().copied().collect())
    };
    in_one(LOCK_ERRORS, leases, fence).result.unwrap_or_default()
}

/// Returns the answer for a lease that this call has not settled.
fn outcome_of_other(call: &CellCall, lease: Uuid, ending: Ending, existing: Option<ExistingLease>) -> SettledAs {
    let cell_id = call.cell_id;
    match existing {
        Some(existing) if existing.cell_id != cell_id => (None, false),
        Some(ExistingLease { outcome: None, .. }) => (Some("busy"), false),
        Some(existing) => (Some(existing.outcome_name()), false),
        // The lease is unknown, unless an open transaction is beginning it.
        None if ending == Ending::Commit => match key::probe(call, lease) {
            // The lease may have begun and ended between the two queries.
            KeyState::Free => match leases::existing(call.connection, &[lease], View::Latest).pop() {
                Some(existing) if existing.cell_id == cell_id => (Some(existing.outcome_name()), false),
                _ => (None, false),
            },
            KeyState::Busy | KeyState::Outstanding => (Some("busy"), false),
        },
        None => (Some("busy"), false),
    }
}
