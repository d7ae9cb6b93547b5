//! The tables of the service, behind the trait [`Tables`]. All rules of the service use them through it.
//!
//! [`local`] is for tables in this database, [`citus`] for tables that are distributed over the nodes of a Citus cluster. Both
//! use [`rows`] (columns and types of rows) and [`shared`] (statements that work in both cases). A call decides once, at its
//! beginning, which of the two it uses ([`connect`], [`at_entry`]).

mod bounded;
pub mod citus;
mod door;
pub mod errors;
mod local;
pub mod rows;
pub mod shared;

pub use self::door::*;
use pg::compatibility;
use pg::spi::{self, Connection};

/// Connects for one call, and chooses the implementation that the call uses. Only functions that SQL calls use this.
pub fn connect<T>(call: impl FnOnce(&'static dyn Tables, &Connection) -> T) -> T {
    spi::connect(|connection| call(of_this_database(), connection))
}

/// Like [`connect`], for functions that have the rights of their caller and seldom run a statement. Statements have the rights of
/// the tables' owner.
pub fn connect_as_owner<T>(call: impl FnOnce(&'static dyn Tables, &Connection) -> T) -> T {
    spi::connect_as_owner(|connection| call(of_this_database(), connection))
}

/// Like [`connect`], for calls that connect later or not at all.
pub fn at_entry() -> &'static dyn Tables {
    compatibility::require();
    of_this_database()
}

/// Returns whether a scan of a table of this database finds its rows. Where Citus is installed they may be in shards.
pub fn have_rows_here() -> bool {
    !citus::catalog::is_installed()
}

/// Returns whether the tables of this database are those that calls expect. It raises no error, unlike the compatibility check.
pub fn are_usable() -> bool {
    citus::layout::has_own_tables()
}

/// Raises an error if calls would read the wrong tables. The part of the compatibility check that compares no versions.
pub fn require_own() {
    citus::layout::require_own_tables();
}

/// Returns whether the tables are distributed, without the compatibility check. Returns false if they are not those that calls expect.
pub fn are_distributed_unchecked() -> bool {
    citus::layout::check_tables().unwrap_or(false)
}

/// Returns the implementation for the tables of this database, as the compatibility check has found them.
pub fn of_this_database() -> &'static dyn Tables {
    if citus::layout::is_distributed() { &citus::Citus } else { &local::Local }
}
