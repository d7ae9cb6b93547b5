//! Claims and gives up names for the current transaction, whose rows are in the database of the service. The claims are ACTIVE, or gone, with
//! its COMMIT.
//!
//! Mostly one attempt changes the claims at once ([`super::now`]). Where it fails, a lease is begun and committed in the transaction itself, by
//! the steps of every other batch: they find the conflicts, and know distributed and altered tables, and types that refuse look-alikes. No
//! other transaction ever sees the lease outstanding.

use std::rc::Rc;
use std::time::Instant;

use claims_model::Batch;
use claims_model::mode::Need;
use claims_model::outgoing::Outgoing;
use pgrx::PgSqlErrorCode as Code;
use uuid::Uuid;

use super::acquire::Acquired;
use super::begin::{Records, lease_or_error, note, remember};
use super::end::{ToEnd, end_leases};
use super::first::{self, Alternatives, Common, ConflictsOf};
use super::now;
use super::settle::CLAIM_LOCK_TIMEOUT_MS;
use crate::error::{AccessError, ClaimsError};
use crate::service::{admission, counters, durability, feed, naming};
use crate::settings;
use crate::store::catalog::{self, Catalog};
use crate::tables::Tables;
use crate::tables::rows::leases::Ending;
use pg::spi::Connection;
use pg::subtransaction::translate_error;

/// Claims and gives up names, or raises an error and leaves nothing behind. The caller has decided that this transaction acts for the cell,
/// and has the rights of the tables' owner.
pub fn claim(
    tables: &dyn Tables,
    connection: &Connection,
    cell_id: i64,
    outgoing: &Outgoing,
) -> Result<(), ClaimsError> {
    let began = Instant::now();
    tables.require_here()?;
    let catalog = catalog::current(connection);
    must_be_registered(&catalog, cell_id)?;
    admission::admit_begin(tables, connection, &catalog, cell_id, None)?;
    // Rows and claims are committed together, so a crash that loses one loses both. Readers of the change feed and standbys see only
    // the claims.
    if settings::require_synchronous() || feed::is_on() {
        durability::promise();
    }
    let read = |catalog: &Catalog| Ok(outgoing.batch(&catalog.types));
    let (catalog, batch) = naming::with_locked_profiles(connection, catalog, read)?;
    let is_done = batch.is_some_and(|batch| now::claim(tables, connection, &catalog, cell_id, &batch, began));
    if !is_done {
        by_lease(tables, connection, catalog, cell_id, outgoing, began)?;
    }
    // The call may have waited, and the mode may have changed meanwhile.
    admission::admit_still(tables, connection, cell_id, Need::Begin)
}

/// Begins a lease, and commits it.
fn by_lease(
    tables: &dyn Tables,
    connection: &Connection,
    catalog: Rc<Catalog>,
    cell_id: i64,
    outgoing: &Outgoing,
    began: Instant,
) -> Result<(), ClaimsError> {
    let (creates, destroys) = outgoing.json();
    let creates = Records::of_text(&creates, "create_records")?;
    let destroys = Records::of_text(&destroys, "destroy_records")?;
    let read = |catalog: &Catalog| {
        let (mut creates, mut destroys) = (creates.tokens(), destroys.tokens());
        let batch = Batch::read(&mut *creates, &mut *destroys, &catalog.types, settings::max_batch_size())?;
        Ok(Alternatives::one(batch, false))
    };
    let (catalog, alternatives) = naming::with_locked_profiles(connection, catalog, read)?;
    alternatives.batches.iter().try_for_each(|batch| admission::admit_batch(&catalog, cell_id, batch.records()))?;
    let (uuid, digest) = (Uuid::now_v7(), alternatives.digest(&catalog, None));
    let conflicts_of = ConflictsOf::Last;
    let common = Common {
        tables,
        cell_id,
        uuid,
        may_be_repeat: false,
        digest,
        cell_xid: None,
        began,
        conflicts_of,
        expects_conflicts: false,
    };
    let acquired = first::take_first(connection, &catalog, &alternatives, &common)?;
    note(&catalog, cell_id, Some(uuid), &acquired, began.elapsed());
    match &acquired {
        Acquired::Lease(begun) => remember(begun, &alternatives),
        Acquired::Conflicts(_) => return lease_or_error(acquired, &catalog).map(drop),
    }
    commit(tables, connection, &catalog, cell_id, uuid)
}

/// Commits the lease that this transaction has just begun.
fn commit(
    tables: &dyn Tables,
    connection: &Connection,
    catalog: &Catalog,
    cell_id: i64,
    lease: Uuid,
) -> Result<(), ClaimsError> {
    let began = Instant::now();
    let leases = &[lease];
    let (ending, claim_lock_timeout_ms) = (Ending::Commit, CLAIM_LOCK_TIMEOUT_MS);
    let around = tables.surroundings();
    let to_end = ToEnd { cell_id, leases, ending, may_wait: false, claim_lock_timeout_ms, around };
    let end = || end_leases(tables, connection, catalog, to_end);
    let ended = translate_error(Code::ERRCODE_LOCK_NOT_AVAILABLE, || ClaimsError::LeaseBusy, end)?;
    counters::settle_took(cell_id, began.elapsed());
    // No other transaction can have seen the lease.
    if ended == 1 { Ok(()) } else { Err(ClaimsError::UnknownLease { lease }) }
}

fn must_be_registered(catalog: &Catalog, cell_id: i64) -> Result<(), ClaimsError> {
    if catalog.cells.contains_key(&cell_id) { Ok(()) } else { Err(AccessError::UnknownCell { cell_id }.into()) }
}
