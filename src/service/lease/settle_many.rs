//! `settle_leases`: many leases in one call; one that fails does not stop the others.

use std::collections::{HashMap, HashSet};

use claims_model::mode::Need;
use claims_model::{BadInput, Problem};
use pgrx::PgSqlErrorCode as Code;
use pgrx::Uuid as PgUuid;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use uuid::Uuid;

use super::end::{ToEnd, end_leases};
use super::key::{self, KeyState};
use crate::access;
use crate::error::ClaimsError;
use crate::pg::settings::LockWaits;
use crate::pg::spi::{self, Connection, View};
use crate::pg::subtransaction::{Parted, Undone, in_one, translate_error};
use crate::pg::uuid::{from_pg_uuid, pg_uuid};
use crate::pg::xact;
use crate::service::{admission, counters, durability, engine};
use crate::store::catalog::{self, Catalog};
use crate::store::service::leases::{self, Ending, KnownLease};
use crate::store::service::transfers;

/// Leases that one call may settle.
const MAX_LEASES: usize = 10_000;

/// Milliseconds to wait for another transaction, whatever claims.wait_timeout is: busy leases are reported as such.
const NOT_AT_ALL: i64 = 0;

/// Errors that mean that another transaction holds a lease or its claims.
const CONTENTION: [Code; 2] = [Code::ERRCODE_LOCK_NOT_AVAILABLE, Code::ERRCODE_T_R_DEADLOCK_DETECTED];

/// The outcome of a lease that was unknown when it was rolled back.
const FENCED: &str = "fenced";

/// The result for one lease: its outcome, and whether this call settled it.
type SettledAs = (Option<&'static str>, bool);

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
#[allow(clippy::type_complexity)]
fn settle_leases(
    cell_id: Option<i64>,
    commit_leases: default!(Option<Vec<Option<PgUuid>>>, "'{}'"),
    rollback_leases: default!(Option<Vec<Option<PgUuid>>>, "'{}'"),
) -> Result<
    TableIterator<'static, (name!(lease_uuid, PgUuid), name!(outcome, Option<String>), name!(settled, bool))>,
    ErrorReport,
> {
    let answers = spi::connect(|connection| {
        let cell_id = access::given(cell_id, "cell_id")?;
        // array_agg() over no rows returns NULL.
        let (commits, rollbacks) = (commit_leases.unwrap_or_default(), rollback_leases.unwrap_or_default());
        let catalog = catalog::current(connection);
        access::act_for(&catalog, cell_id)?;
        admission::admit(&catalog, cell_id, Need::Settle)?;
        let (commits, rollbacks) = checked_lists(commits, rollbacks)?;
        let _waits = LockWaits::limit(NOT_AT_ALL);
        let settle = || {
            let mut answers = settle_list(connection, &catalog, cell_id, &commits, Ending::Commit);
            answers.extend(settle_list(connection, &catalog, cell_id, &rollbacks, Ending::Rollback));
            // The cell forgets leases when it is told how they ended: a crash must not undo that, also where others have ended them.
            durability::promise();
            let tells_of_others = answers.iter().any(|(_, (outcome, settled))| !settled && outcome.is_some());
            let is_flushed_by_commit = answers.iter().any(|(_, (_, settled))| *settled);
            if tells_of_others && !is_flushed_by_commit {
                xact::flush_commits();
            }
            Ok::<_, ClaimsError>(answers)
        };
        translate_error(Code::ERRCODE_LOCK_NOT_AVAILABLE, || ClaimsError::TableLocked, settle)
    })?;
    let row = |(lease, (outcome, settled)): (Uuid, SettledAs)| (pg_uuid(lease), outcome.map(str::to_owned), settled);
    Ok(TableIterator::new(answers.into_iter().map(row)))
}

/// Both lists without repeats, in the order given.
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
        Some(lease) => Err(ClaimsError::ContradictoryOutcomes { lease: *lease }),
        None => Ok((commits, rollbacks)),
    }
}

fn uuids(list: Vec<Option<PgUuid>>, name: &str) -> Result<Vec<Uuid>, ClaimsError> {
    let mut seen = HashSet::new();
    let mut unique = Vec::with_capacity(list.len());
    for (index, lease) in list.into_iter().enumerate() {
        let lease = from_pg_uuid(lease.ok_or_else(|| BadInput::new(format!("{name}[{index}]"), Problem::Null))?);
        if seen.insert(lease) {
            unique.push(lease);
        }
    }
    Ok(unique)
}

/// Settles one list: all leases that are not locked, but for those that fail, together. Locks lease rows in uuid order,
/// skipping locked ones, then claims in bucket order.
fn settle_list(
    connection: &Connection,
    catalog: &Catalog,
    cell_id: i64,
    list: &[Uuid],
    ending: Ending,
) -> Vec<(Uuid, SettledAs)> {
    if list.is_empty() {
        return Vec::new();
    }
    // Ends those of the leases that no other transaction has locked; fails if one of them fails.
    let settle = |list: &[Uuid]| {
        let free = leases::lock_free(connection, list, cell_id);
        if !free.is_empty() {
            end_leases(connection, catalog, ToEnd { cell_id, leases: &free, ending, patience: NOT_AT_ALL })?;
        }
        Ok::<_, ClaimsError>(free.into_iter().collect())
    };
    let Parted { kept, troubled } = in_one(&CONTENTION, list, settle);
    let settled: HashSet<Uuid> = kept.unwrap_or_default();
    // Another error of the body means a damaged lease.
    let is_damaged =
        |undone: &Undone<_>| matches!(undone, Undone::ByBody(error) if !matches!(error, ClaimsError::LeaseBusy));
    let damaged: HashSet<_> =
        troubled.iter().filter(|(_, undone)| is_damaged(undone)).map(|(lease, _)| *lease).collect();
    let others: Vec<_> = list.iter().copied().filter(|lease| !settled.contains(lease)).collect();
    let mut known: HashMap<_, _> =
        leases::known(connection, &others, View::Latest).into_iter().map(|known| (known.uuid, known)).collect();
    let unknown: Vec<_> = others.iter().copied().filter(|lease| !known.contains_key(lease)).collect();
    // What a transfer holds is no lease of any cell's.
    let no_leases = if unknown.is_empty() { HashSet::new() } else { transfers::among(connection, &unknown) };
    // A fence that comes too fast is busy.
    let may_fence =
        |lease: &Uuid| !known.contains_key(lease) && admission::admit_fence(connection, catalog, cell_id).is_ok();
    let is_to_fence = |lease: &Uuid| ending == Ending::Rollback && !no_leases.contains(lease) && may_fence(lease);
    let to_fence: Vec<_> = unknown.iter().copied().filter(is_to_fence).collect();
    let fenced = if ending == Ending::Rollback { fence(connection, cell_id, &to_fence) } else { HashSet::new() };
    let answer = |lease: &Uuid| {
        let answer = match settled.contains(lease) {
            true => (Some(ending.outcome()), true),
            false if fenced.contains(lease) => (Some(FENCED), true),
            // It remains outstanding: commit_update and rollback_update report what is wrong with it.
            false if no_leases.contains(lease) => (None, false),
            false if damaged.contains(lease) => (Some("outstanding"), false),
            false => unsettled(connection, cell_id, *lease, ending, known.remove(lease)),
        };
        (*lease, answer)
    };
    list.iter().map(answer).collect()
}

/// Fences leases that are not known, and returns those for which it succeeded. Locks their keys in the order given.
fn fence(connection: &Connection, cell_id: i64, leases: &[Uuid]) -> HashSet<Uuid> {
    let fence = |leases: &[Uuid]| {
        let fenced = leases.iter().all(|lease| engine::current().fence(connection, *lease, cell_id));
        if !fenced {
            return Err(());
        }
        counters::fenced(cell_id, leases.len());
        Ok(leases.iter().copied().collect())
    };
    in_one(&CONTENTION, leases, fence).kept.unwrap_or_default()
}

/// The answer for a lease that was not ended here.
fn unsettled(
    connection: &Connection,
    cell_id: i64,
    lease: Uuid,
    ending: Ending,
    known: Option<KnownLease>,
) -> SettledAs {
    match known {
        Some(known) if known.cell_id != cell_id => (None, false),
        Some(KnownLease { outcome: None, .. }) => (Some("busy"), false),
        Some(known) => (Some(known.outcome_name()), false),
        // Unknown to all but, maybe, an open transaction that is beginning it.
        None if ending == Ending::Commit => match key::look(connection, lease, cell_id) {
            // It may have begun and ended between the two queries.
            KeyState::Free => match leases::known(connection, &[lease], View::Latest).pop() {
                Some(known) if known.cell_id == cell_id => (Some(known.outcome_name()), false),
                _ => (None, false),
            },
            KeyState::Busy | KeyState::Outstanding => (Some("busy"), false),
        },
        None => (Some("busy"), false),
    }
}
