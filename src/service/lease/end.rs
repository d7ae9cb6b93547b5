//! Ends outstanding leases of a cell: turns their rows into outcomes, and settles their claims.

use std::collections::BTreeSet;

use claims_json::Tokens;
use claims_model::attribution::Attribution;
use claims_model::lookalike::skeletons;
use claims_model::{Bucket, Claim, StoredBatch};
use uuid::Uuid;

use super::errors::LeaseError;
use crate::kernel::call::CellCall;
use crate::kernel::catalog::Catalog;
use crate::kernel::error::{ClaimsError, TablesError};
use crate::service::claims::kept;
use crate::service::claims::{
    CLAIM_TABLES, EndedLease, EndedLeases, EndedRow, EndedSkeletons, Ending, HeldFor, KEY_TABLES, LEASE_TABLES,
    LeaseEnding, LeaseInUse, SKELETON_TABLES,
};
use crate::service::quarantine::{Given, keep_back, keep_skeletons};
use crate::service::{audit, counters, feed, waiters};
use pg::clock::Moment;
use pg::jsonb::Jsonb;
use pg::settings::LockWaits;
use pg::xact::Surroundings;

/// The leases of a cell to end.
#[derive(Clone, Copy)]
pub struct ToEnd<'l> {
    pub leases: &'l [Uuid],
    pub ending: Ending,
    /// Whether the call waits for other transactions that have locked one of the leases.
    pub may_wait: bool,
    /// Lock timeout for each of the claims.
    pub claim_lock_timeout_ms: i64,
    /// How the call relates to its transaction, from before any subtransaction.
    pub around: Surroundings,
    /// Whether an administrator rolls the leases back, so that their cell may have saved the names that they create.
    pub is_forced: bool,
}

/// Ends those of the leases that the cell has outstanding, and returns their number. A lease that does not hold the claims of its
/// payload is an error: the caller must roll back the (sub)transaction. The caller decides whether the commit is flushed.
pub fn end_leases(call: &CellCall, to_end: ToEnd) -> Result<usize, ClaimsError> {
    let end = || call.bounded_around(to_end.around, || end_all(call, to_end));
    let attempts = if call.tables.needs_subtransactions() { MAX_ATTEMPTS } else { 1 };
    let is_damaged = |error: &ClaimsError| matches!(error.of(), Some(LeaseError::Damaged { .. }));
    let is_whole = |ended: &Result<_, _>| !ended.as_ref().is_err_and(is_damaged);
    (1..attempts).map(|_| end()).find(is_whole).unwrap_or_else(end)
}

/// Number of attempts on several nodes, where another transaction's commit may have reached one node and not yet another one.
const MAX_ATTEMPTS: usize = 3;

fn end_all(call: &CellCall, to_end: ToEnd) -> Result<usize, ClaimsError> {
    let CellCall { cell_id, ref catalog, .. } = *call;
    let ToEnd { leases: list, ending, may_wait, claim_lock_timeout_ms, around, is_forced } = to_end;
    let now = Moment::now();
    let ended = LEASE_TABLES.of(call).end(call.connection, list, &LeaseEnding { cell_id, ending, at: now, may_wait });
    let ended = ended.map_err(|LeaseInUse| LeaseError::Busy)?;
    let leases = ended.iter().map(|lease| read_payload(lease, catalog)).collect::<Result<Vec<_>, _>>()?;
    let expected: usize = leases.iter().map(|lease| lease.held.claims()).sum();
    let owners = audit::owners(call, &leases, || created_claims(call, &ended))?;
    let _waits = LockWaits::limit(claim_lock_timeout_ms);
    let settlement = EndedLeases { leases: leases.iter().map(|lease| lease.uuid).collect(), at: now, around };
    let given_up = match ending {
        Ending::Commit => Given::up(catalog, leases.iter().flat_map(|lease| &lease.held.destroys).collect()),
        // A create that is rolled back was never owned.
        Ending::Rollback if !is_forced => Given { freed: created(&leases), kept: Vec::new() },
        Ending::Rollback => Given::up(catalog, created(&leases)),
    };
    let (found, given_back) = match (expected, ending) {
        (0, _) => (0, Vec::new()),
        (_, Ending::Commit) => (commit(call, (&ended, &leases), &given_up, &settlement)?, Vec::new()),
        (_, Ending::Rollback) => {
            if is_forced {
                hold_reclaims(call, &ended, &settlement)?;
            }
            roll_back(call, &leases, &given_up, &settlement)
        }
    };
    let skeletons = EndedSkeletons {
        created: skeletons(leases.iter().flat_map(|lease| &lease.held.creates), &catalog.types),
        destroyed: skeletons(leases.iter().flat_map(|lease| &lease.held.destroys), &catalog.types),
    };
    if !(skeletons.created.is_empty() && skeletons.destroyed.is_empty()) {
        SKELETON_TABLES.of(call).settle_skeletons(call.connection, &skeletons, ending);
        let kept: BTreeSet<&Bucket> = given_up.kept.iter().copied().chain(&given_back).collect();
        keep_skeletons(call, &catalog.types, kept.into_iter());
    }
    match leases.first() {
        // The transaction that has begun the lease is still committing on another node.
        Some(_) if found != expected && KEY_TABLES.of(call).is_any_contended(call.connection, &leases) => {
            Err(LeaseError::Busy.into())
        }
        Some(lease) if found != expected => Err(LeaseError::Damaged { lease: lease.uuid, expected, found }.into()),
        _ => {
            match ending {
                Ending::Commit => counters::committed(cell_id, ended.len()),
                Ending::Rollback => counters::rolled_back(cell_id, ended.len()),
            }
            wake_waiters(call, &leases, ending);
            feed::tell_ended(call, &leases, ending, now);
            audit::settled(call, &leases, &owners, ending, now);
            Ok(ended.len())
        }
    }
}

/// Has the COMMIT wake the calls that wait for the names of ended leases.
pub(super) fn wake_waiters(call: &CellCall, leases: &[EndedLease], ending: Ending) {
    let created = leases.iter().flat_map(|lease| &lease.held.creates);
    let destroyed = leases.iter().flat_map(|lease| &lease.held.destroys);
    let replaced = leases.iter().flat_map(|lease| lease.held.replaces.iter().map(|claim| &claim.bucket));
    waiters::settled(call, created, ending == Ending::Commit);
    // Nobody can have a name that is kept back, so all who wait for it are answered.
    let Given { freed, kept } = Given::up(&call.catalog, destroyed.collect());
    waiters::settled(call, freed.into_iter(), ending == Ending::Rollback);
    waiters::settled(call, kept.into_iter(), true);
    waiters::settled(call, replaced, true);
}

fn created<'l>(leases: &'l [EndedLease<'l>]) -> Vec<&'l Bucket<'l>> {
    leases.iter().flat_map(|lease| &lease.held.creates).collect()
}

/// Settles the claims of committed leases: creates, then replacements, then destroys. Returns how many it found in the expected state.
fn commit(
    call: &CellCall,
    (ended, leases): (&[EndedRow], &[EndedLease]),
    given_up: &Given,
    all: &EndedLeases,
) -> Result<usize, ClaimsError> {
    let created = created(leases);
    let replaced = leases.iter().flat_map(|lease| lease.held.replaces.iter().map(|claim| (lease.uuid, claim)));
    let replaced: Vec<(Uuid, &Claim)> = replaced.collect();
    let activated = CLAIM_TABLES.of(call).activate(call.connection, all, &created, HeldFor::Creating);
    // The others were kept back before their leases.
    let reclaimed = if activated == created.len() { 0 } else { complete_reclaims(call, ended, all)? };
    Ok(activated
        + reclaimed
        + CLAIM_TABLES.of(call).replace(call.connection, all, &replaced)
        + CLAIM_TABLES.of(call).remove(call.connection, all, &given_up.freed, HeldFor::Destroying)
        + keep_back(call, &call.catalog, all, HeldFor::Destroying, &given_up.kept))
}

/// Makes names that committed leases have reclaimed claims of the cell. Returns their number.
fn complete_reclaims(call: &CellCall, ended: &[EndedRow], all: &EndedLeases) -> Result<usize, ClaimsError> {
    Ok(kept::complete_reclaims(call.connection, all, call.cell_id, &created_claims(call, ended)?))
}

/// Makes names that leases reclaim claims that they create, where the types have a quarantine: the cell may have saved them, so that they are
/// kept back anew from now on. The others are kept back as they were.
fn hold_reclaims(call: &CellCall, ended: &[EndedRow], all: &EndedLeases) -> Result<usize, ClaimsError> {
    let mut claims = created_claims(call, ended)?;
    claims.retain(|(_, claim)| call.catalog.quarantines.contains_key(&claim.bucket.bucket_type));
    Ok(kept::hold_reclaims(call.connection, all, call.cell_id, &claims))
}

/// Returns the claims that leases create, from their payloads and in lock order.
fn created_claims<'l>(call: &CellCall, ended: &'l [EndedRow]) -> Result<Vec<(Uuid, Claim<'l>)>, ClaimsError> {
    let mut claims: Vec<(Uuid, Claim)> = Vec::new();
    for lease in ended {
        let mut creates = list(lease, lease.creates.as_ref(), "create_records")?;
        let created = StoredBatch::created_claims(&mut creates, &call.catalog.types);
        let created = created.map_err(|bad| damaged(lease, &format!("{} cannot be read", bad.path)))?;
        claims.extend(created.into_iter().map(|claim| (lease.uuid, claim)));
    }
    claims.sort_unstable_by(|(_, a), (_, b)| a.bucket.cmp(&b.bucket));
    Ok(claims)
}

/// Settles the claims of leases that were rolled back: creates, then all others. Returns how many it found in the expected state, and the names
/// that are kept back again.
fn roll_back(
    call: &CellCall,
    leases: &[EndedLease],
    given_up: &Given,
    all: &EndedLeases,
) -> (usize, Vec<Bucket<'static>>) {
    let replaced = leases.iter().flat_map(|lease| lease.held.replaces.iter().map(|claim| &claim.bucket));
    let unchanged: Vec<&Bucket> = leases.iter().flat_map(|lease| &lease.held.destroys).chain(replaced).collect();
    let removed = CLAIM_TABLES.of(call).remove(call.connection, all, &given_up.freed, HeldFor::Creating)
        + keep_back(call, &call.catalog, all, HeldFor::Creating, &given_up.kept);
    let created = created(leases);
    // The others were kept back before their leases, and are again.
    let given_back = match removed == created.len() {
        true => Vec::new(),
        false => kept::give_back(call.connection, all, &created),
    };
    let activated = CLAIM_TABLES.of(call).activate(call.connection, all, &unchanged, HeldFor::Destroying);
    (removed + given_back.len() + activated, given_back)
}

fn read_payload<'a>(lease: &'a EndedRow, catalog: &Catalog) -> Result<EndedLease<'a>, ClaimsError> {
    let mut creates = list(lease, lease.creates.as_ref(), "create_records")?;
    let mut destroys = list(lease, lease.destroys.as_ref(), "destroy_records")?;
    let held = StoredBatch::read(&mut creates, &mut destroys, &catalog.types)
        .map_err(|bad| damaged(lease, &format!("{} cannot be read", bad.path)))?;
    let attribution = Attribution::stored(lease.context.clone(), lease.cell_role.clone());
    Ok(EndedLease { uuid: lease.uuid, held, attribution })
}

/// Returns a list of the payload.
fn list<'a>(lease: &EndedRow, list: Option<&'a Jsonb>, name: &str) -> Result<impl Tokens<'a> + use<'a>, ClaimsError> {
    Ok(list.ok_or_else(|| damaged(lease, &format!("payload has no {name}")))?.tokens())
}

fn damaged(lease: &EndedRow, what: &str) -> TablesError {
    TablesError::Unreadable { what: format!("Lease {}: {what}", lease.uuid) }
}
