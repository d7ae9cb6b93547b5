//! Ends outstanding leases of a cell: turns their rows into outcomes, and settles their claims.

use claims_model::lookalike::skeletons;
use claims_model::{Bucket, Claim, StoredBatch};
use uuid::Uuid;

use crate::error::ClaimsError;
use crate::service::{audit, counters, feed, waiters};
use crate::store::catalog::Catalog;
use crate::tables::rows::claims::{EndedLeases, HeldFor};
use crate::tables::rows::leases::{EndedRow, Ending, LeaseEnding};
use crate::tables::{self, EndedLease, EndedSkeletons, LeaseInUse, Tables};
use pg::clock::Moment;
use pg::settings::LockWaits;
use pg::spi::Connection;
use pg::xact::Surroundings;

/// The leases of a cell to end.
#[derive(Clone, Copy)]
pub struct ToEnd<'l> {
    pub cell_id: i64,
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
pub fn end_leases(
    tables: &dyn Tables,
    connection: &Connection,
    catalog: &Catalog,
    to_end: ToEnd,
) -> Result<usize, ClaimsError> {
    let end =
        || tables::bounded_around(tables, connection, to_end.around, || end_all(tables, connection, catalog, to_end));
    let attempts = if tables.needs_subtransactions() { MAX_ATTEMPTS } else { 1 };
    let is_whole = |ended: &Result<_, _>| !matches!(ended, Err(ClaimsError::Damaged { .. }));
    (1..attempts).map(|_| end()).find(is_whole).unwrap_or_else(end)
}

/// Number of attempts on several nodes, where another transaction's commit may have reached one node and not yet another one.
const MAX_ATTEMPTS: usize = 3;

fn end_all(
    tables: &dyn Tables,
    connection: &Connection,
    catalog: &Catalog,
    ToEnd { cell_id, leases: list, ending, may_wait, claim_lock_timeout_ms, around }: ToEnd,
) -> Result<usize, ClaimsError> {
    let now = Moment::now();
    let ended = tables.end(connection, list, &LeaseEnding { cell_id, ending, at: now, may_wait });
    let ended = ended.map_err(|LeaseInUse| ClaimsError::LeaseBusy)?;
    let leases = ended.iter().map(|lease| read_payload(lease, catalog)).collect::<Result<Vec<_>, _>>()?;
    let expected: usize = leases.iter().map(|lease| lease.held.claims()).sum();
    let _waits = LockWaits::limit(claim_lock_timeout_ms);
    let settlement = EndedLeases { leases: leases.iter().map(|lease| lease.uuid).collect(), at: now, around };
    let found = if expected == 0 { 0 } else { settle(tables, connection, &leases, ending, &settlement) };
    let skeletons = EndedSkeletons {
        created: skeletons(leases.iter().flat_map(|lease| &lease.held.creates), &catalog.types),
        destroyed: skeletons(leases.iter().flat_map(|lease| &lease.held.destroys), &catalog.types),
    };
    if !(skeletons.created.is_empty() && skeletons.destroyed.is_empty()) {
        tables.settle_skeletons(connection, &skeletons, ending);
    }
    match leases.first() {
        // The transaction that has begun the lease is still committing on another node.
        Some(_) if found != expected && tables.is_any_contended(connection, &leases) => Err(ClaimsError::LeaseBusy),
        Some(lease) if found != expected => Err(ClaimsError::Damaged { lease: lease.uuid, expected, found }),
        _ => {
            match ending {
                Ending::Commit => counters::committed(cell_id, ended.len()),
                Ending::Rollback => counters::rolled_back(cell_id, ended.len()),
            }
            wake_waiters(tables, &leases, ending);
            feed::tell_ended(tables, connection, cell_id, &leases, ending, now);
            audit::settled(tables, connection, catalog, cell_id, &leases, ending, now);
            Ok(ended.len())
        }
    }
}

/// Has the COMMIT wake the calls that wait for the names of ended leases.
pub(super) fn wake_waiters(tables: &dyn Tables, leases: &[EndedLease], ending: Ending) {
    let created = leases.iter().flat_map(|lease| &lease.held.creates);
    let destroyed = leases.iter().flat_map(|lease| &lease.held.destroys);
    let replaced = leases.iter().flat_map(|lease| lease.held.replaces.iter().map(|claim| &claim.bucket));
    waiters::settled(tables, created, ending == Ending::Commit);
    waiters::settled(tables, destroyed, ending == Ending::Rollback);
    waiters::settled(tables, replaced, true);
}

/// Settles the claims of ended leases: creates, then replacements, then destroys. Returns how many it found in the expected
/// state.
fn settle(
    tables: &dyn Tables,
    connection: &Connection,
    leases: &[EndedLease],
    ending: Ending,
    all: &EndedLeases,
) -> usize {
    let created: Vec<&Bucket> = leases.iter().flat_map(|lease| &lease.held.creates).collect();
    let replaced = leases.iter().flat_map(|lease| lease.held.replaces.iter().map(|claim| (lease.uuid, claim)));
    let replaced: Vec<(Uuid, &Claim)> = replaced.collect();
    let mut destroyed: Vec<&Bucket> = leases.iter().flat_map(|lease| &lease.held.destroys).collect();
    match ending {
        Ending::Commit => {
            tables.activate(connection, all, &created, HeldFor::Creating)
                + tables.replace(connection, all, &replaced)
                + tables.remove(connection, all, &destroyed, HeldFor::Destroying)
        }
        Ending::Rollback => {
            destroyed.extend(replaced.iter().map(|(_, claim)| &claim.bucket));
            tables.remove(connection, all, &created, HeldFor::Creating)
                + tables.activate(connection, all, &destroyed, HeldFor::Destroying)
        }
    }
}

fn read_payload<'a>(lease: &'a EndedRow, catalog: &Catalog) -> Result<EndedLease<'a>, ClaimsError> {
    let damaged = |what: &str| ClaimsError::Unreadable { what: format!("Lease {}: {what}", lease.uuid) };
    let mut creates = lease.creates.as_ref().ok_or_else(|| damaged("payload has no create_records"))?.tokens();
    let mut destroys = lease.destroys.as_ref().ok_or_else(|| damaged("payload has no destroy_records"))?.tokens();
    let held = StoredBatch::read(&mut creates, &mut destroys, &catalog.types)
        .map_err(|bad| damaged(&format!("{} cannot be read", bad.path)))?;
    Ok(EndedLease { uuid: lease.uuid, held })
}
