//! The context of one call at the service: on which tables, over which connection, and for a call of a cell also which cell, with which
//! catalog, and since when. A function takes it as its first parameter, and hands it on.

use std::ops::Deref;
use std::rc::Rc;
use std::time::Instant;

use super::access;
use super::arguments::required;
use super::catalog::{self, Catalog};
use super::error::ClaimsError;
use super::tables::{self, Door, Tables};
use pg::spi::{self, Connection};
use pg::subtransaction::{Undone, subtransaction};
use pg::xact::Surroundings;
use pgrx::pg_sys::panic::ErrorReport;

/// Runs the body of an SQL function, and hands its error to PostgreSQL.
pub fn answer<T>(body: impl FnOnce() -> Result<T, ClaimsError>) -> Result<T, ErrorReport> {
    Ok(body()?)
}

/// The tables that a call uses, chosen once, and its connection.
#[derive(Clone, Copy)]
pub struct Call<'c> {
    pub tables: Tables,
    pub connection: &'c Connection,
}

impl<'c> Call<'c> {
    /// Connects for one call of an SQL function.
    pub fn run<T>(body: impl FnOnce(&Call) -> T) -> T {
        spi::connect(|connection| body(&Call { tables: tables::of_this_database(), connection }))
    }

    /// Like [`Call::run`], for functions that have the rights of their caller and seldom run a statement. Statements have the rights of
    /// the tables' owner.
    pub fn run_as_owner<T>(body: impl FnOnce(&Call) -> T) -> T {
        spi::connect_as_owner(|connection| body(&Call { tables: tables::of_this_database(), connection }))
    }

    /// Returns a call over a connection that exists: of a cell in the same database, or of a background worker.
    pub fn over(connection: &'c Connection) -> Self {
        Call { tables: tables::at_entry(), connection }
    }

    /// Returns the call as one of a cell, whose rights the caller has checked.
    pub fn of_cell(&self, cell_id: i64) -> CellCall<'c> {
        CellCall { call: *self, cell_id, catalog: self.current_catalog(), began: Instant::now() }
    }

    /// Returns the catalog as it is now, which may be newer than at the beginning of the call.
    pub fn current_catalog(&self) -> Rc<Catalog> {
        catalog::current(self.connection)
    }

    /// Runs `body` with the lock timeout of this session on all nodes. `body` is atomic: it does not undo parts of its work by a
    /// subtransaction of its own.
    pub fn bounded<T, E>(&self, body: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.bounded_around(self.tables.surroundings(), body)
    }

    /// Like [`Call::bounded`], within a subtransaction of the caller or without one. `around` is from before it.
    pub fn bounded_around<T, E>(&self, around: Surroundings, body: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        if !self.tables.needs_subtransactions() {
            return body();
        }
        subtransaction(&[], || self.bounded_within(around, body)).map_err(|undone| match undone {
            Undone::ByBody(error) => error,
            Undone::ByError(code) => unreachable!("{code:?} is raised again"),
        })
    }

    /// Like [`Call::bounded`], within a subtransaction of the caller.
    pub fn bounded_within<T, E>(&self, around: Surroundings, body: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.tables.bound_waits(self.connection);
        let value = body()?;
        self.tables.free_waits(self.connection, around);
        Ok(value)
    }
}

impl<T: ?Sized> Door<T> {
    /// Returns the implementation for the tables of a call.
    pub fn of(&self, call: &Call) -> &'static T {
        self.at(call.tables)
    }
}

/// A call of a cell.
#[derive(Clone)]
pub struct CellCall<'c> {
    call: Call<'c>,
    pub cell_id: i64,
    /// The catalog that the call goes by: the one of its beginning, or the one whose profiles it has locked.
    pub catalog: Rc<Catalog>,
    pub began: Instant,
}

impl<'c> Deref for CellCall<'c> {
    type Target = Call<'c>;

    fn deref(&self) -> &Call<'c> {
        &self.call
    }
}

impl CellCall<'_> {
    /// Connects for one call of an SQL function, and checks whether the caller may act for the cell. The call began when its function did.
    pub fn run<T>(
        cell_id: Option<i64>,
        body: impl FnOnce(&CellCall) -> Result<T, ClaimsError>,
    ) -> Result<T, ClaimsError> {
        let began = Instant::now();
        Call::run(|call| body(&admitted(call, cell_id, began)?))
    }

    /// Like [`CellCall::run`], for functions that have the rights of their caller and seldom run a statement. The call counts from `began`.
    pub fn run_as_owner<T>(
        cell_id: Option<i64>,
        began: Instant,
        body: impl FnOnce(&CellCall) -> Result<T, ClaimsError>,
    ) -> Result<T, ClaimsError> {
        Call::run_as_owner(|call| body(&admitted(call, cell_id, began)?))
    }

    /// Returns the call with a newer catalog.
    pub fn with_catalog(&self, catalog: Rc<Catalog>) -> Self {
        CellCall { catalog, ..self.clone() }
    }
}

/// Raises an error unless the caller may act for the cell.
fn admitted<'c>(call: &Call<'c>, cell_id: Option<i64>, began: Instant) -> Result<CellCall<'c>, ClaimsError> {
    let cell_id = required(cell_id, "cell_id")?;
    let catalog = call.current_catalog();
    access::act_for(&catalog, cell_id)?;
    Ok(CellCall { call: *call, cell_id, catalog, began })
}
