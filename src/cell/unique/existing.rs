//! Claims the values that a table has already, with the table locked against writers.

use std::collections::HashSet;

use pgrx::pg_sys::Oid;

use super::errors::UniqueError;
use super::table_values::{Canonical, UniqueTable};
use crate::cell::claimed::unique_tables::{self, Generation};
use crate::kernel::error::ClaimsError;
use crate::triggers::as_extension_owner;
use pg::spi::Connection;
use pg::stored::BoundedText;
use pg::xact;

/// The number of values that one statement claims.
const PORTION: usize = 5_000;

/// Begins a generation of each ordinary table that has none, of a table of a constraint and its partitions, and claims its values. The caller has
/// locked these tables against writers.
pub fn claim_new_tables(connection: &Connection, type_id: i32, top: Oid) -> Result<(), ClaimsError> {
    let tables = unique_tables::leaves_without(connection, type_id, top);
    if tables.is_empty() {
        return Ok(());
    }
    // One statement for all: it sends an invalidation to all sessions.
    for Generation { table_name, generation } in unique_tables::begin_generations(connection, type_id, &tables, true) {
        if let Some(table) = UniqueTable::of(connection, (type_id, generation), table_name)? {
            claim_rows(connection, table)?;
        }
    }
    Ok(())
}

/// Like [claim_new_tables], and leaves the values that the tables have to claims.import_unique().
pub fn leave_to_import(connection: &Connection, type_id: i32, root: Oid) {
    let tables = unique_tables::leaves_without(connection, type_id, root);
    if !tables.is_empty() {
        unique_tables::begin_generations(connection, type_id, &tables, false);
    }
}

/// Claims the values of one table for its generation.
fn claim_rows(connection: &Connection, table: UniqueTable) -> Result<(), ClaimsError> {
    let query = table.query("");
    // The transaction's own snapshot may be older than the lock, and misses rows then.
    if xact::uses_transaction_snapshot() {
        let is_empty = table.as_owner(|| connection.run_text_now(&format!("{query} LIMIT 1"), []).count() == 0);
        return if is_empty { Ok(()) } else { Err(UniqueError::OldSnapshot.into()) };
    }
    let mut portion = ValuesToClaim { connection, table: &table, given: Vec::new(), failure: None };
    table.read(&query, false, |value| portion.add(value));
    portion.finish()
}

/// Values that one statement claims.
struct ValuesToClaim<'p> {
    connection: &'p Connection,
    table: &'p UniqueTable<'p>,
    given: Vec<Canonical>,
    failure: Option<ClaimsError>,
}

impl ValuesToClaim<'_> {
    fn add(&mut self, value: BoundedText) {
        if self.failure.is_some() {
            return;
        }
        match self.table.canonical(value) {
            Ok(value) => self.given.push(value),
            Err(error) => self.failure = Some(error),
        }
        if self.given.len() == PORTION {
            self.claim();
        }
    }

    /// Claims the values, with the rights of the extension's owner.
    fn claim(&mut self) {
        let values = std::mem::take(&mut self.given);
        if values.is_empty() || self.failure.is_some() {
            return;
        }
        let mut seen = HashSet::new();
        let double = values.iter().find(|(value, _)| !seen.insert(value.as_str())).map(|(value, _)| value.clone());
        let claim = || as_extension_owner(self.connection, || self.table.claim(&values)).unwrap_or_default();
        if let Some(value) = double.or_else(|| claim().into_iter().min()) {
            let (name, column) = (self.table.column.name.clone(), self.table.column.quoted_column.clone());
            self.failure = Some(UniqueError::Duplicates { name, column, value }.into());
        }
    }

    fn finish(mut self) -> Result<(), ClaimsError> {
        self.claim();
        self.failure.map_or(Ok(()), Err)
    }
}
