//! The slot at the service that the worker's verification holds, so that few cells verify at the same time.

use std::cell::Cell;
use std::time::{Duration, Instant};

use claims_model::due::{SLOT_EXTEND_INTERVAL, SLOT_HELD_FOR};

use crate::cell::client::{Service, unreachable};
use crate::cell::transactions::Transactions;
use crate::cell::verify::errors::VerificationError;
use crate::error::ClaimsError;

/// Timeout of a call to the service.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A slot of a cell. It is held until [`Slot::give_back`] is called, or for some time after the last call.
pub struct Slot<'s> {
    service: &'s Service<'s>,
    cell_id: i64,
    extended: Cell<Instant>,
}

impl<'s> Slot<'s> {
    /// Takes a slot. Raises 55P03 if the service has no free one.
    pub fn take<G: Transactions>(transactions: &G, service: &'s Service<'s>, cell_id: i64) -> Result<Self, G::Error> {
        let slot = Slot { service, cell_id, extended: Cell::new(Instant::now()) };
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
        let Slot { service, cell_id, .. } = *self;
        let seconds = i32::try_from(SLOT_HELD_FOR.as_secs()).unwrap_or(0);
        let hold = || service.hold_verification_slot(cell_id, seconds, ANSWER_TIMEOUT).map_err(unreachable);
        match transactions.at_service(hold)? {
            true => Ok(()),
            false => Err(ClaimsError::from(VerificationError::NoSlot { cell_id }).into()),
        }
    }

    /// Gives the slot back. If that fails, it becomes free by itself.
    pub fn give_back<G: Transactions>(&self, transactions: &G) {
        let Slot { service, cell_id, .. } = *self;
        let _ =
            transactions.at_service(|| service.hold_verification_slot(cell_id, 0, ANSWER_TIMEOUT).map_err(unreachable));
    }
}
