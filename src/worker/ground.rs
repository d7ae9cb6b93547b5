//! A transaction for each step in this database, as the extension's owner, and none while the service is asked.

use pgrx::pg_sys::Oid;

use crate::cell::recovery::ground::Ground;
use crate::error::{ClaimsError, Failure};
use crate::pg::background::transaction;
use crate::pg::owner::as_role;
use crate::pg::spi::{self, Connection};
use crate::pg::subtransaction::{Stopped, attempt, caught};

pub struct OwnTransactions {
    pub owner: Oid,
}

impl Ground for OwnTransactions {
    type Error = Failure;
    const COMMITS: bool = true;

    fn here<T>(&self, step: impl FnOnce(&Connection) -> Result<T, ClaimsError>) -> Result<T, Failure> {
        // In a subtransaction, so that an error ends that, and not the process.
        let step = || attempt(|| spi::connect(step));
        transaction(|| as_role(self.owner, step)).map_err(|stopped| match stopped {
            Stopped::ByBody(error) => error.into(),
            Stopped::ByError(caught) => Failure::from(&caught),
        })
    }

    fn there<T>(&self, call: impl FnOnce() -> Result<T, ClaimsError>) -> Result<T, Failure> {
        caught(call).map_err(|caught| Failure::from(&caught))?.map_err(Failure::from)
    }
}
