//! Where recovery takes place: what it does in this database, and what it asks the service.
//!
//! The steps of a pass need no transaction around them: a fence counts when it is committed, what the service was told to commit was
//! committed here before, and a tracked row goes when the service has confirmed it. So the background worker, which has
//! time, takes a transaction for each step in this database, and has none open while it waits for the service. What somebody calls
//! is in that caller's transaction.

use crate::error::ClaimsError;
use crate::pg::spi::Connection;

pub trait Ground {
    type Error: From<ClaimsError>;

    /// A step in this database.
    fn here<T>(&self, step: impl FnOnce(&Connection) -> Result<T, ClaimsError>) -> Result<T, Self::Error>;

    /// A step that waits for the service.
    fn there<T>(&self, call: impl FnOnce() -> Result<T, ClaimsError>) -> Result<T, Self::Error>;
}

/// The caller's transaction.
impl Ground for Connection {
    type Error = ClaimsError;

    fn here<T>(&self, step: impl FnOnce(&Connection) -> Result<T, ClaimsError>) -> Result<T, ClaimsError> {
        step(self)
    }

    fn there<T>(&self, call: impl FnOnce() -> Result<T, ClaimsError>) -> Result<T, ClaimsError> {
        call()
    }
}
