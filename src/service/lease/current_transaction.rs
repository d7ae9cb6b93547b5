//! Claims and gives up names for the current transaction, whose rows are in the database of the service. The claims are ACTIVE, or gone, with
//! its COMMIT.
//!
//! Mostly one attempt changes the claims at once ([`super::now`]). Where it fails, a lease is begun and committed in the transaction itself, by
//! the steps of every other batch: they find the conflicts, and know distributed and altered tables, and types that refuse look-alikes. No
//! other transaction ever sees the lease outstanding.

use std::time::Instant;

use claims_model::Batch;
use claims_model::mode::Need;
use claims_model::outgoing::Outgoing;
use pgrx::PgSqlErrorCode as Code;
use uuid::Uuid;

use super::acquire::Acquired;
use super::begin::{RecordList, lease_or_error, note, read_batches, remember};
use super::end::{ToEnd, end_leases};
use super::errors::LeaseError;
use super::first::{self, Alternatives};
use super::one_step;
use super::request::{BeginAttempt, ConflictsOf};
use super::settle::CLAIM_LOCK_TIMEOUT_MS;
use crate::kernel::call::{Call, CellCall};
use crate::kernel::catalog::Catalog;
use crate::kernel::error::{AccessError, ClaimsError};
use crate::kernel::{attribution, settings};
use crate::service::claims::Ending;
use crate::service::{admission, counters, durability, feed, naming};
use pg::subtransaction::translate_error;

/// Claims and gives up names, or raises an error and leaves nothing behind. The caller has decided that this transaction acts for the cell,
/// and has the rights of the tables' owner.
pub fn claim(call: &Call, cell_id: i64, outgoing: &Outgoing) -> Result<(), ClaimsError> {
    call.tables.require_here()?;
    let call = &call.of_cell(cell_id);
    must_be_registered(call)?;
    admission::admit_begin(call, None)?;
    // Rows and claims are committed together, so a crash that loses one loses both. Readers of the change feed and standbys see only
    // the claims.
    if settings::require_synchronous() || feed::is_on() {
        durability::promise();
    }
    let read = |catalog: &Catalog| Ok(outgoing.batch(&catalog.types));
    let (call, batch) = naming::locked(call, read)?;
    let is_done = batch.is_some_and(|batch| one_step::claim(&call, &batch));
    if !is_done {
        by_lease(&call, outgoing)?;
    }
    // The call may have waited, and the mode may have changed meanwhile.
    admission::admit_still(&call, Need::Begin)
}

/// Begins a lease, and commits it.
fn by_lease(call: &CellCall, outgoing: &Outgoing) -> Result<(), ClaimsError> {
    let (creates, destroys) = outgoing.json();
    let creates = RecordList::of_text(&creates, "create_records")?;
    let destroys = RecordList::of_text(&destroys, "destroy_records")?;
    let read = |catalog: &Catalog| {
        let (mut creates, mut destroys) = (creates.tokens(), destroys.tokens());
        let batch = Batch::read(&mut *creates, &mut *destroys, &catalog.types, settings::max_batch_size())?;
        Ok(Alternatives::one(batch, false))
    };
    let (call, alternatives) = read_batches(call, read)?;
    let (uuid, attribution) = (Uuid::now_v7(), attribution::of_session());
    let attempt = BeginAttempt {
        call: &call,
        uuid,
        may_be_repeat: false,
        digest: alternatives.digest(&call.catalog, None),
        cell_xid: None,
        attribution: &attribution,
        conflicts_of: ConflictsOf::Last,
        expects_conflicts: false,
    };
    let acquired = first::take_first(&attempt, &alternatives)?;
    note(&attempt, Some(uuid), &acquired, &alternatives.batches);
    match &acquired {
        Acquired::Lease(begun) => remember(begun, &alternatives),
        Acquired::Conflicts(_) => return lease_or_error(acquired, &call.catalog).map(drop),
    }
    commit(&call, uuid)
}

/// Commits the lease that this transaction has just begun.
fn commit(call: &CellCall, lease: Uuid) -> Result<(), ClaimsError> {
    let began = Instant::now();
    let to_end = ToEnd {
        leases: &[lease],
        ending: Ending::Commit,
        may_wait: false,
        claim_lock_timeout_ms: CLAIM_LOCK_TIMEOUT_MS,
        around: call.tables.surroundings(),
        is_forced: false,
    };
    let end = || end_leases(call, to_end);
    let ended = translate_error(&[Code::ERRCODE_LOCK_NOT_AVAILABLE], || LeaseError::Busy.into(), end)?;
    counters::settle_took(call.cell_id, began.elapsed());
    // No other transaction can have seen the lease.
    if ended == 1 { Ok(()) } else { Err(LeaseError::Unknown { lease }.into()) }
}

fn must_be_registered(call: &CellCall) -> Result<(), ClaimsError> {
    let cell_id = call.cell_id;
    if call.catalog.cells.contains_key(&cell_id) { Ok(()) } else { Err(AccessError::UnknownCell { cell_id }.into()) }
}
