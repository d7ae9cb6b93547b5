//! Leases that are known already: repeats, and outcomes behind the back of an old snapshot.

use std::time::Instant;

use super::key::{self, KeyState};
use super::request::Begun;
use crate::error::ClaimsError;
use crate::pg::settings::LockWaits;
use crate::pg::spi::{Connection, View};
use crate::pg::xact;
use crate::store::service::leases::{self, Ending, KnownLease, NewLease};

/// A uuid that is known: the same request again is answered as the first time, anything else is refused. `None`: it
/// was settled while we looked.
pub fn answer(
    connection: &Connection,
    lease: &NewLease,
    known: &KnownLease,
    deadline: Instant,
) -> Result<Option<Begun>, ClaimsError> {
    let uuid = lease.uuid;
    let begun = Begun { lease: uuid, chosen: known.chosen(), is_new: false };
    if known.cell_id != lease.cell_id {
        return Err(ClaimsError::ForeignLease { lease: uuid });
    }
    refuse_stale(connection, known)?;
    if known.outcome == Some(Ending::Rollback) {
        return Err(ClaimsError::RolledBack { lease: uuid });
    }
    if !known.is_of(lease) {
        return Err(ClaimsError::OtherRequest { lease: uuid });
    }
    if known.outcome == Some(Ending::Commit) {
        return Ok(Some(begun));
    }
    let _waits = LockWaits::until(deadline);
    match key::look(connection, uuid, known.cell_id) {
        KeyState::Outstanding => Ok(Some(begun)),
        KeyState::Busy => Err(ClaimsError::LeaseBusy),
        KeyState::Free => Ok(None),
    }
}

/// An outcome that the transaction's own snapshot does not show was settled behind its back: serialization failure.
pub fn refuse_stale(connection: &Connection, known: &KnownLease) -> Result<(), ClaimsError> {
    let settled_unseen = known.outcome.is_some()
        && xact::keeps_one_snapshot()
        && !leases::known(connection, &[known.uuid], View::Statement).contains(known);
    if settled_unseen { Err(ClaimsError::StaleLease { lease: known.uuid }) } else { Ok(()) }
}
