//! Answers for leases that are known already: repeats, and outcomes that an old snapshot does not show.

use std::time::Instant;

use super::errors::LeaseError;
use super::key::{self, KeyState};
use super::request::BegunLease;
use crate::kernel::call::CellCall;
use crate::kernel::error::ClaimsError;
use crate::service::claims::{Ending, ExistingLease, NewLease, leases};
use pg::settings::LockWaits;
use pg::spi::{Connection, View};
use pg::xact;

/// Answers a begin whose uuid exists: a repeat of the same request gets the same answer, any other request is refused. Returns
/// `None` if the lease was settled meanwhile.
pub fn answer(
    call: &CellCall,
    lease: &NewLease,
    existing: &ExistingLease,
    deadline: Instant,
) -> Result<Option<BegunLease<'static>>, ClaimsError> {
    let uuid = lease.uuid;
    let begun = BegunLease { lease: uuid, chosen: existing.chosen(), is_new: false, skipped: Vec::new() };
    if existing.cell_id != lease.cell_id {
        return Err(LeaseError::Foreign { lease: uuid }.into());
    }
    refuse_stale(call.connection, existing)?;
    if existing.outcome == Some(Ending::Rollback) {
        return Err(LeaseError::RolledBack { lease: uuid }.into());
    }
    if !existing.is_of(lease) {
        return Err(LeaseError::OtherRequest { lease: uuid }.into());
    }
    if existing.outcome == Some(Ending::Commit) {
        return Ok(Some(begun));
    }
    let _waits = LockWaits::until(deadline);
    match key::probe(call, uuid) {
        KeyState::Outstanding => Ok(Some(begun)),
        KeyState::Busy => Err(LeaseError::Busy.into()),
        KeyState::Free => Ok(None),
    }
}

/// Raises a serialization failure if the lease has an outcome that the transaction's own snapshot does not show.
pub fn refuse_stale(connection: &Connection, existing: &ExistingLease) -> Result<(), ClaimsError> {
    let settled_unseen = existing.outcome.is_some()
        && xact::uses_transaction_snapshot()
        && !leases::existing(connection, &[existing.uuid], View::Statement).contains(existing);
    if settled_unseen { Err(LeaseError::Stale { lease: existing.uuid }.into()) } else { Ok(()) }
}
