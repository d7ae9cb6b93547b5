//! Runs work on the tables whose lock waits end on all nodes as they do in this session.

use super::door::Tables;
use pg::spi::Connection;
use pg::subtransaction::{Undone, subtransaction};
use pg::xact::Surroundings;

impl dyn Tables + '_ {
    /// Runs `body` with the lock timeout of this session on all nodes. `body` is atomic: it does not undo parts of its work by a
    /// subtransaction of its own.
    pub fn bounded<T, E>(&self, connection: &Connection, body: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.bounded_around(connection, self.surroundings(), body)
    }

    /// Like `bounded`, within a subtransaction of the caller or without one. `around` is from before it.
    pub fn bounded_around<T, E>(
        &self,
        connection: &Connection,
        around: Surroundings,
        body: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        if !self.needs_subtransactions() {
            return body();
        }
        subtransaction(&[], || self.bounded_within(connection, around, body)).map_err(|undone| match undone {
            Undone::ByBody(error) => error,
            Undone::ByError(code) => unreachable!("{code:?} is raised again"),
        })
    }

    /// Like `bounded`, within a subtransaction of the caller.
    pub fn bounded_within<T, E>(
        &self,
        connection: &Connection,
        around: Surroundings,
        body: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.bound_waits(connection);
        let value = body()?;
        self.free_waits(connection, around);
        Ok(value)
    }
}
