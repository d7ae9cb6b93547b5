//! The transactions of recovery: its steps in this database, and its calls of the service.
//!
//! The steps of a pass need no common transaction: a fence counts only once it is committed, the service is told to commit only
//! what was committed here before, and a tracked row is deleted only after the service has confirmed. So the background worker
//! uses a transaction for each step in this database, and has none open while it waits for the service. A call by a session
//! runs in that session's transaction.

use crate::error::ClaimsError;
use crate::pg::spi::Connection;

pub trait Ground {
    type Error: From<ClaimsError>;

    /// What a step has written is committed when it is over.
    const COMMITS: bool;

    /// A step in this database.
    fn here<T>(&self, step: impl FnOnce(&Connection) -> Result<T, ClaimsError>) -> Result<T, Self::Error>;

    /// A step that waits for the service.
    fn there<T>(&self, call: impl FnOnce() -> Result<T, ClaimsError>) -> Result<T, Self::Error>;
}

/// The caller's transaction.
impl Ground for Connection {
    type Error = ClaimsError;
    const COMMITS: bool = false;

    fn here<T>(&self, step: impl FnOnce(&Connection) -> Result<T, ClaimsError>) -> Result<T, ClaimsError> {
        step(self)
    }

    fn there<T>(&self, call: impl FnOnce() -> Result<T, ClaimsError>) -> Result<T, ClaimsError> {
        call()
    }
}
