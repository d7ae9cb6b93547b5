//! Runs each step in a transaction of this database, as the extension's owner. No transaction is open during calls to
//! the service. Before each step the worker may do something short.

use std::cell::Cell;

use pgrx::pg_sys::Oid;

use crate::cell::transactions::Transactions;
use crate::kernel::error::ClaimsError;
use crate::kernel::pass_log::Failure;
use pg::background::transaction;
use pg::owner::as_role;
use pg::spi::{self, Connection};
use pg::subtransaction::{Stopped, attempt, caught};

thread_local! {
    static BEFORE_STEPS: Cell<Option<fn(Oid)>> = const { Cell::new(None) };
}

/// Sets what the worker does before each step, as the extension's owner.
pub fn before_steps(work: fn(Oid)) {
    BEFORE_STEPS.set(Some(work));
}

pub struct OwnTransactions {
    pub owner: Oid,
}

impl OwnTransactions {
    fn before_step(&self) {
        if let Some(work) = BEFORE_STEPS.get() {
            work(self.owner);
        }
    }
}

impl Transactions for OwnTransactions {
    type Error = Failure;
    const COMMITS: bool = true;

    fn in_database<T>(&self, step: impl FnOnce(&Connection) -> Result<T, ClaimsError>) -> Result<T, Failure> {
        self.before_step();
        // In a subtransaction, so that an error ends that, and not the process.
        let step = || attempt(|| spi::connect(step));
        transaction(|| as_role(self.owner, step)).map_err(|stopped| match stopped {
            Stopped::ByBody(error) => error.into(),
            Stopped::ByError(caught) => Failure::from(&caught),
        })
    }

    fn at_service<T>(&self, call: impl FnOnce() -> Result<T, ClaimsError>) -> Result<T, Failure> {
        self.before_step();
        caught(call).map_err(|caught| Failure::from(&caught))?.map_err(Failure::from)
    }
}
