//! Ending leases that the cell has outstanding: their rows become outcomes, and their claims are settled.

use claims_model::lookalike::looks;
use claims_model::{Bucket, Claim, StoredBatch};
use uuid::Uuid;

use crate::error::ClaimsError;
use crate::pg::clock::Moment;
use crate::pg::settings::LockWaits;
use crate::pg::spi::Connection;
use crate::pg::xact::Surroundings;
use crate::service::counters;
use crate::service::engine::{self, EndedLease, EndedLooks};
use crate::service::feed;
use crate::store::catalog::Catalog;
use crate::store::service::claims::{HeldFor, Settlement};
use crate::store::service::leases::{self, EndedRow, Ending};

/// Leases of a cell that are to end.
#[derive(Clone, Copy)]
pub struct ToEnd<'l> {
    pub cell_id: i64,
    pub leases: &'l [Uuid],
    pub ending: Ending,
    /// For how many milliseconds to wait for each of the claims' locks.
    pub patience: i64,
}

/// Ends those of the leases that the cell has outstanding, and returns how many. One that does not hold what its payload
/// names is an error: the caller must let the (sub)transaction roll back. Whether the commit is flushed is the caller's.
pub fn end_leases(connection: &Connection, catalog: &Catalog, to_end: ToEnd) -> Result<usize, ClaimsError> {
    let around = engine::current().surroundings();
    let end = || engine::bounded(connection, || end_all(connection, catalog, to_end, around));
    let looks = if engine::current().needs_subtransactions() { LOOKS } else { 1 };
    let is_whole = |ended: &Result<_, _>| !matches!(ended, Err(ClaimsError::Damaged { .. }));
    (1..looks).map(|_| end()).find(is_whole).unwrap_or_else(end)
}

/// How often to look at a lease that another transaction's commit has reached on one of several nodes, and not yet on another one.
const LOOKS: usize = 3;

fn end_all(
    connection: &Connection,
    catalog: &Catalog,
    ToEnd { cell_id, leases: list, ending, patience }: ToEnd,
    around: Surroundings,
) -> Result<usize, ClaimsError> {
    let now = Moment::now();
    let ended = leases::end(connection, list, cell_id, ending, now);
    let leases = ended.iter().map(|lease| read_payload(lease, catalog)).collect::<Result<Vec<_>, _>>()?;
    let expected: usize = leases.iter().map(|lease| lease.held.claims()).sum();
    let _waits = LockWaits::limit(patience);
    let settlement = Settlement { leases: leases.iter().map(|lease| lease.uuid).collect(), at: now, around };
    let found = if expected == 0 { 0 } else { settle(connection, &leases, ending, &settlement) };
    let looks = EndedLooks {
        created: looks(leases.iter().flat_map(|lease| &lease.held.creates), &catalog.types),
        destroyed: looks(leases.iter().flat_map(|lease| &lease.held.destroys), &catalog.types),
    };
    if !(looks.created.is_empty() && looks.destroyed.is_empty()) {
        engine::current().settle_looks(connection, &looks, ending);
    }
    match leases.first() {
        // Who has begun it is still committing, elsewhere.
        Some(_) if found != expected && engine::current().is_any_contended(connection, &leases) => {
            Err(ClaimsError::LeaseBusy)
        }
        Some(lease) if found != expected => Err(ClaimsError::Damaged { lease: lease.uuid, expected, found }),
        _ => {
            match ending {
                Ending::Commit => counters::committed(cell_id, ended.len()),
                Ending::Rollback => counters::rolled_back(cell_id, ended.len()),
            }
            feed::tell_settled(connection, cell_id, &leases, ending, now);
            Ok(ended.len())
        }
    }
}

/// Settles the claims of leases that have ended: creates, then replacements, then destroys. How many it found in the state in
/// which they had to be.
fn settle(connection: &Connection, leases: &[EndedLease], ending: Ending, all: &Settlement) -> usize {
    let engine = engine::current();
    let created: Vec<&Bucket> = leases.iter().flat_map(|lease| &lease.held.creates).collect();
    let replaced = leases.iter().flat_map(|lease| lease.held.replaces.iter().map(|claim| (lease.uuid, claim)));
    let replaced: Vec<(Uuid, &Claim)> = replaced.collect();
    let mut destroyed: Vec<&Bucket> = leases.iter().flat_map(|lease| &lease.held.destroys).collect();
    match ending {
        Ending::Commit => {
            engine.activate(connection, all, &created, HeldFor::Creating)
                + engine.replace(connection, all, &replaced)
                + engine.remove(connection, all, &destroyed, HeldFor::Destroying)
        }
        Ending::Rollback => {
            destroyed.extend(replaced.iter().map(|(_, claim)| &claim.bucket));
            engine.remove(connection, all, &created, HeldFor::Creating)
                + engine.activate(connection, all, &destroyed, HeldFor::Destroying)
        }
    }
}

fn read_payload<'a>(lease: &'a EndedRow, catalog: &Catalog) -> Result<EndedLease<'a>, ClaimsError> {
    let damaged = |what: &str| ClaimsError::Unreadable { what: format!("Lease {}: {what}", lease.uuid) };
    let mut creates = lease.creates.as_ref().ok_or_else(|| damaged("payload has no create_records"))?.tokens();
    let mut destroys = lease.destroys.as_ref().ok_or_else(|| damaged("payload has no destroy_records"))?.tokens();
    let held = StoredBatch::read(&mut creates, &mut destroys, &catalog.types)
        .map_err(|bad| damaged(&format!("{} cannot be read", bad.place)))?;
    Ok(EndedLease { uuid: lease.uuid, held })
}
