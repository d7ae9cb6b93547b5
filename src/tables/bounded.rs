//! Runs work on the tables whose lock waits end on all nodes as they do in this session.

use super::door::Tables;
use pg::spi::Connection;
use pg::subtransaction::{Undone, subtransaction};
use pg::xact::Surroundings;

/// Runs `body` with the lock timeout of this session on all nodes. `body` is atomic: it does not undo parts of its work by a
/// subtransaction of its own.
pub fn bounded<T, E>(
    tables: &dyn Tables,
    connection: &Connection,
    body: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    bounded_around(tables, connection, tables.surroundings(), body)
}

/// Like [`bounded`], within a subtransaction of the caller or without one. `around` is from before it.
pub fn bounded_around<T, E>(
    tables: &dyn Tables,
    connection: &Connection,
    around: Surroundings,
    body: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    if !tables.needs_subtransactions() {
        return body();
    }
    subtransaction(&[], || bounded_within(tables, connection, around, body)).map_err(|undone| match undone {
        Undone::ByBody(error) => error,
        Undone::ByError(code) => unreachable!("{code:?} is raised again"),
    })
}

/// Like [`bounded`], within a subtransaction of the caller.
pub fn bounded_within<T, E>(
    tables: &dyn Tables,
    connection: &Connection,
    around: Surroundings,
    body: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    tables.bound_waits(connection);
    let value = body()?;
    tables.free_waits(connection, around);
    Ok(value)
}
