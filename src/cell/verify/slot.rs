//! The slot at the service that the worker's verification holds, so that few cells verify at the same time.

use std::cell::Cell;
use std::time::{Duration, Instant};

use claims_model::due::{SLOT_EXTEND_INTERVAL, SLOT_HELD_FOR};

use super::errors::VerificationError;
use crate::cell::client::{Service, unreachable};
use crate::cell::transactions::Transactions;
use crate::kernel::error::ClaimsError;

/// Timeout of a call to the service.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A slot of a cell. It is held until [`VerificationSlot::give_back`] is called, or for some time after the last call.
pub struct VerificationSlot<'s> {
    service: &'s Service<'s>,
    extended: Cell<Instant>,
}

impl<'s> VerificationSlot<'s> {
    /// Takes a slot. Raises 55P03 if the service has no free one.
    pub fn take<G: Transactions>(transactions: &G, service: &'s Service<'s>) -> Result<Self, G::Error> {
        let slot = VerificationSlot { service, extended: Cell::new(Instant::now()) };
        slot.hold(transactions)?;
        Ok(slot)
    }

    /// Extends the time for which the slot is held, if that is due. Raises 55P03 if another cell has the slot by now.
    pub fn extend<G: Transactions>(&self, transactions: &G) -> Result<(), G::Error> {
        if self.extended.get().elapsed() < SLOT_EXTEND_INTERVAL {
            return Ok(());
        }
        self.extended.set(Instant::now());
        self.hold(transactions)
    }

    fn hold<G: Transactions>(&self, transactions: &G) -> Result<(), G::Error> {
        let seconds = i32::try_from(SLOT_HELD_FOR.as_secs()).unwrap_or(0);
        let hold = || self.service.hold_verification_slot(seconds, ANSWER_TIMEOUT).map_err(unreachable);
        match transactions.at_service(hold)? {
            true => Ok(()),
            false => Err(ClaimsError::from(VerificationError::NoSlot { cell_id: self.service.cell_id }).into()),
        }
    }

    /// Gives the slot back. If that fails, it becomes free by itself.
    pub fn give_back<G: Transactions>(&self, transactions: &G) {
        let _ = transactions.at_service(|| self.service.hold_verification_slot(0, ANSWER_TIMEOUT).map_err(unreachable));
    }
}
