//! The transactions of recovery and verification: their steps in this database, and their calls to the service.
//!
//! The steps of a pass need no common transaction. A fence counts only once it is committed. The service is told to commit only
//! leases that were committed here before. A tracked row is deleted only after the service has confirmed its lease. So the
//! background worker uses a transaction for each step in this database, and has none open while it waits for the service. A call
//! by a session runs in that session's transaction.

use crate::kernel::error::ClaimsError;
use pg::spi::Connection;

pub trait Transactions {
    type Error: From<ClaimsError>;

    /// Whether the writes of a step are committed when it returns.
    const COMMITS: bool;

    /// Runs a step in this database.
    fn in_database<T>(&self, step: impl FnOnce(&Connection) -> Result<T, ClaimsError>) -> Result<T, Self::Error>;

    /// Runs a step that waits for the service.
    fn at_service<T>(&self, call: impl FnOnce() -> Result<T, ClaimsError>) -> Result<T, Self::Error>;
}

/// Runs all steps in the caller's transaction.
impl Transactions for Connection {
    type Error = ClaimsError;
    const COMMITS: bool = false;

    fn in_database<T>(&self, step: impl FnOnce(&Connection) -> Result<T, ClaimsError>) -> Result<T, ClaimsError> {
        step(self)
    }

    fn at_service<T>(&self, call: impl FnOnce() -> Result<T, ClaimsError>) -> Result<T, ClaimsError> {
        call()
    }
}
