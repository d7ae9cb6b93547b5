//! Warns of slow searches in the cell's own tables that lack an index.
//!
//! A search is noted while SPI is open, and the WARNING is raised after SPI is closed: raising it checks for interrupts, and a
//! cancel leaves this function by an error.

use std::cell::RefCell;
use std::collections::HashSet;
use std::time::Duration;

use pgrx::pg_sys::Oid;

use crate::cell::capture::errors::warn_of_slow_search;
use crate::cell::claimed::expected::Attribute;
use crate::cell::claimed::search_index::MissingIndex;
use pg::spi::Connection;

/// Minimum duration of a slow search. A search by an index is faster, even on a machine under load.
const SLOW: Duration = Duration::from_secs(1);

thread_local! {
    /// Tables for which this session has raised a WARNING.
    static WARNED: RefCell<HashSet<Oid>> = RefCell::default();
    static NOTED: RefCell<Vec<(Oid, MissingIndex)>> = const { RefCell::new(Vec::new()) };
}

/// Notes a search for names in a claimed column, if it was slow and no index could be used.
pub fn note(connection: &Connection, attribute: &Attribute, took: Duration) {
    let table = attribute.table();
    if took < SLOW || WARNED.with_borrow(|warned| warned.contains(&table)) {
        return;
    }
    if let Some(missing) = attribute.missing_index(connection) {
        NOTED.with_borrow_mut(|noted| noted.push((table, missing)));
    }
}

/// Forgets searches whose warnings were not raised because of an error.
pub fn forget() {
    NOTED.with_borrow_mut(Vec::clear);
}

/// Warns of the noted searches, once in a session for each table. Call it while SPI is closed.
pub fn warn() {
    for (table, missing) in NOTED.take() {
        if WARNED.with_borrow_mut(|warned| warned.insert(table)) {
            warn_of_slow_search(&missing.table, &missing.column, &missing.statement);
        }
    }
}
