//! Claims the values that a table has already.

use std::collections::HashSet;

use claims_model::Profile;
use claims_model::capture::NamedBucket;
use pgrx::pg_sys::Oid;

use super::columns::values_of;
use super::errors::UniqueError;
use crate::cell::capture::errors::Excess;
use crate::cell::claimed::unique_tables::{self, Generation, GivenUp, UniqueColumnRow};
use crate::kernel::catalog;
use crate::kernel::error::ClaimsError;
use crate::triggers::as_extension_owner;
use pg::owner::restricted_as;
use pg::settings::{under, with_fixed_text};
use pg::spi::Connection;
use pg::stored::BoundedText;
use pg::xact;

/// The number of values that one statement claims.
const PORTION: usize = 5_000;

/// Begins a generation of each ordinary table that belongs to a table of a constraint and has none, and claims its values. The caller has
/// locked these tables against writers.
pub fn claim_new_tables(connection: &Connection, type_id: i32, root: Oid) -> Result<(), ClaimsError> {
    let tables = unique_tables::leaves_without(connection, type_id, root);
    if tables.is_empty() {
        return Ok(());
    }
    // One statement for all: it sends an invalidation to all sessions.
    for Generation { table_name, generation } in unique_tables::begin_generations(connection, type_id, &tables) {
        claim_rows(connection, (type_id, generation), table_name)?;
    }
    Ok(())
}

/// Claims the values of one table for its generation.
fn claim_rows(connection: &Connection, (type_id, generation): (i32, i64), table: Oid) -> Result<(), ClaimsError> {
    let columns = unique_tables::columns(connection, table);
    let Some(column) = columns.into_iter().find(|column| column.type_id == type_id) else { return Ok(()) };
    if column.has_unique_text != Some(true) {
        let type_name = column.type_name.unwrap_or_default();
        return Err(UniqueError::UnfitColumn { column: column.column_name, type_name }.into());
    }
    let fields = unique_tables::columns_in_order(connection, column.root).flatten().unwrap_or_default();
    let Some(name) = unique_tables::quoted_name(connection, table) else { return Ok(()) };
    let (value, root) = (column.value_expression(), &column.quoted_root);
    let values = format!("SELECT {value} AS value FROM (SELECT {fields} FROM ONLY {name}) AS {root}");
    let text = format!("SELECT v.value FROM ({values}) v WHERE v.value IS NOT NULL");
    let profile = catalog::current(connection).types.profile_of(&column.name);
    let owner = column.owner;
    let mut portion = ValuesOfTable { connection, generation, column, profile, given: Vec::new(), failure: None };
    let read = || {
        // The transaction's own snapshot may be older than the lock, and misses rows then.
        if xact::uses_transaction_snapshot() {
            let is_empty = connection.run_text_now(&format!("{text} LIMIT 1"), []).count() == 0;
            return if is_empty { Ok(()) } else { Err(UniqueError::OldSnapshot) };
        }
        connection.stream(&text, [], false, |row| values_of(&row, 1).for_each(|value| portion.add(value)));
        Ok(())
    };
    // An error instead of rows that a policy hides.
    restricted_as(owner, || under(&[(c"row_security", c"off")], || with_fixed_text(read)))?;
    portion.finish()
}

/// Values that one statement claims.
struct ValuesOfTable<'p> {
    connection: &'p Connection,
    generation: i64,
    column: UniqueColumnRow,
    profile: Profile,
    /// The values in canonical form, each with its own spelling where that differs.
    given: Vec<(String, Option<String>)>,
    failure: Option<ClaimsError>,
}

impl ValuesOfTable<'_> {
    fn add(&mut self, value: Option<BoundedText>) {
        let Some(value) = value.filter(|_| self.failure.is_none()) else { return };
        let text = match value {
            BoundedText::Text(text) if text.is_empty() => {
                let (table, column) = (self.column.root_name.clone(), self.column.column_name.clone());
                self.failure = Some(UniqueError::EmptyText { table, column }.into());
                return;
            }
            BoundedText::Text(text) => Ok(text),
            BoundedText::TooLong { bytes } => Err(Excess::UnreadName { bytes }),
        };
        let named = |text| NamedBucket::named("".into(), self.profile, text).map_err(Excess::Name);
        match text.and_then(named) {
            Ok((bucket, display)) if !bucket.is_forbidden => self.given.push((bucket.value, display)),
            Ok((bucket, _)) => {
                let (column, profile) = (self.column.column_name.clone(), self.profile.name());
                self.failure = Some(UniqueError::Refused { column, value: bucket.value, profile }.into());
            }
            Err(excess) => {
                let (table, column) = (self.column.root_name.clone(), self.column.column_name.clone());
                self.failure = Some(UniqueError::TooLong { table, column, excess }.into());
            }
        }
        if self.given.len() == PORTION {
            self.claim();
        }
    }

    /// Claims the values, with the rights of the extension's owner.
    fn claim(&mut self) {
        let (values, displays): (Vec<_>, Vec<_>) = std::mem::take(&mut self.given).into_iter().unzip();
        if values.is_empty() || self.failure.is_some() {
            return;
        }
        let mut seen = HashSet::new();
        let double = values.iter().find(|value| !seen.insert(value.as_str())).cloned();
        let connection = self.connection;
        let claim = || {
            as_extension_owner(connection, || self.claim_values(&values, displays))
                .unwrap_or_default()
                .into_iter()
                .min()
        };
        if let Some(value) = double.or_else(claim) {
            let UniqueColumnRow { name, quoted_column, .. } = &self.column;
            self.failure =
                Some(UniqueError::Duplicates { name: name.clone(), column: quoted_column.clone(), value }.into());
        }
    }

    /// Claims values. Returns those that stand elsewhere.
    fn claim_values(&self, values: &[String], displays: Vec<Option<String>>) -> Vec<String> {
        let (connection, type_id, generation) = (self.connection, self.column.type_id, self.generation);
        let claim = |values: &[String], displays| {
            unique_tables::claim_values(connection, type_id, generation, values, displays)
        };
        let taken = claim(values, displays.clone());
        if taken.is_empty() {
            return taken;
        }
        // Claims of generations that are not known any more, or that have ended after the statement had begun.
        let texts: Vec<&str> = taken.iter().map(String::as_str).collect();
        let given_up = unique_tables::given_up(connection, &self.column.name, &texts);
        let (free, generations): (Vec<_>, Vec<_>) =
            given_up.into_iter().map(|GivenUp { value, generation }| (value, generation)).unzip();
        if free.is_empty() {
            return taken;
        }
        unique_tables::delete_given_up(connection, type_id, &free, &generations);
        let display =
            |value: &String| values.iter().position(|other| other == value).and_then(|at| displays[at].clone());
        let displays = taken.iter().map(display).collect();
        claim(&taken, displays)
    }

    fn finish(mut self) -> Result<(), ClaimsError> {
        self.claim();
        self.failure.map_or(Ok(()), Err)
    }
}
