//! Ends outstanding leases of a cell: turns their rows into outcomes, and settles their claims.

use claims_model::attribution::Attribution;
use claims_model::lookalike::skeletons;
use claims_model::{Bucket, Claim, StoredBatch};
use uuid::Uuid;

use super::errors::LeaseError;
use crate::kernel::call::{Call, CellCall};
use crate::kernel::catalog::Catalog;
use crate::kernel::error::{ClaimsError, TablesError};
use crate::service::claims::{
    CLAIM_TABLES, EndedLease, EndedLeases, EndedRow, EndedSkeletons, Ending, HeldFor, KEY_TABLES, LEASE_TABLES,
    LeaseEnding, LeaseInUse, SKELETON_TABLES,
};
use crate::service::{audit, counters, feed, waiters};
use pg::clock::Moment;
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
    let ToEnd { leases: list, ending, may_wait, claim_lock_timeout_ms, around } = to_end;
    let now = Moment::now();
    let ended = LEASE_TABLES.of(call).end(call.connection, list, &LeaseEnding { cell_id, ending, at: now, may_wait });
    let ended = ended.map_err(|LeaseInUse| LeaseError::Busy)?;
    let leases = ended.iter().map(|lease| read_payload(lease, catalog)).collect::<Result<Vec<_>, _>>()?;
    let expected: usize = leases.iter().map(|lease| lease.held.claims()).sum();
    let owners = audit::owners(call, &leases);
    let _waits = LockWaits::limit(claim_lock_timeout_ms);
    let settlement = EndedLeases { leases: leases.iter().map(|lease| lease.uuid).collect(), at: now, around };
    let found = if expected == 0 { 0 } else { settle(call, &leases, ending, &settlement) };
    let skeletons = EndedSkeletons {
        created: skeletons(leases.iter().flat_map(|lease| &lease.held.creates), &catalog.types),
        destroyed: skeletons(leases.iter().flat_map(|lease| &lease.held.destroys), &catalog.types),
    };
    if !(skeletons.created.is_empty() && skeletons.destroyed.is_empty()) {
        SKELETON_TABLES.of(call).settle_skeletons(call.connection, &skeletons, ending);
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
pub(super) fn wake_waiters(call: &Call, leases: &[EndedLease], ending: Ending) {
    let created = leases.iter().flat_map(|lease| &lease.held.creates);
    let destroyed = leases.iter().flat_map(|lease| &lease.held.destroys);
    let replaced = leases.iter().flat_map(|lease| lease.held.replaces.iter().map(|claim| &claim.bucket));
    waiters::settled(call, created, ending == Ending::Commit);
    waiters::settled(call, destroyed, ending == Ending::Rollback);
    waiters::settled(call, replaced, true);
}

/// Settles the claims of ended leases: creates, then replacements, then destroys. Returns how many it found in the expected
/// state.
fn settle(call: &Call, leases: &[EndedLease], ending: Ending, all: &EndedLeases) -> usize {
    let created: Vec<&Bucket> = leases.iter().flat_map(|lease| &lease.held.creates).collect();
    let replaced = leases.iter().flat_map(|lease| lease.held.replaces.iter().map(|claim| (lease.uuid, claim)));
    let replaced: Vec<(Uuid, &Claim)> = replaced.collect();
    let mut destroyed: Vec<&Bucket> = leases.iter().flat_map(|lease| &lease.held.destroys).collect();
    match ending {
        Ending::Commit => {
            CLAIM_TABLES.of(call).activate(call.connection, all, &created, HeldFor::Creating)
                + CLAIM_TABLES.of(call).replace(call.connection, all, &replaced)
                + CLAIM_TABLES.of(call).remove(call.connection, all, &destroyed, HeldFor::Destroying)
        }
        Ending::Rollback => {
            destroyed.extend(replaced.iter().map(|(_, claim)| &claim.bucket));
            CLAIM_TABLES.of(call).remove(call.connection, all, &created, HeldFor::Creating)
                + CLAIM_TABLES.of(call).activate(call.connection, all, &destroyed, HeldFor::Destroying)
        }
    }
}

fn read_payload<'a>(lease: &'a EndedRow, catalog: &Catalog) -> Result<EndedLease<'a>, ClaimsError> {
    let damaged = |what: &str| TablesError::Unreadable { what: format!("Lease {}: {what}", lease.uuid) };
    let mut creates = lease.creates.as_ref().ok_or_else(|| damaged("payload has no create_records"))?.tokens();
    let mut destroys = lease.destroys.as_ref().ok_or_else(|| damaged("payload has no destroy_records"))?.tokens();
    let held = StoredBatch::read(&mut creates, &mut destroys, &catalog.types)
        .map_err(|bad| damaged(&format!("{} cannot be read", bad.path)))?;
    let attribution = Attribution::stored(lease.context.clone(), lease.cell_role.clone());
    Ok(EndedLease { uuid: lease.uuid, held, attribution })
}
