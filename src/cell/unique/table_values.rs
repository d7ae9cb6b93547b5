//! The values of one table or partition of a unique: read with the rights of the table's owner, and claimed with those of the extension's.

use claims_model::Profile;
use claims_model::capture::NamedBucket;
use pgrx::pg_sys::Oid;

use super::columns::values_of;
use super::errors::UniqueError;
use crate::cell::capture::errors::Excess;
use crate::cell::claimed::unique_tables::{self, GivenUp, UniqueColumnRow};
use crate::kernel::catalog;
use crate::kernel::error::ClaimsError;
use pg::owner::restricted_as;
use pg::settings::{under, with_fixed_text};
use pg::spi::Connection;
use pg::stored::BoundedText;

/// A value in canonical form, with its own spelling where that differs.
pub type Canonical = (String, Option<String>);

/// A table or partition whose values are claimed for a generation.
pub struct UniqueTable<'c> {
    connection: &'c Connection,
    pub generation: i64,
    pub column: UniqueColumnRow,
    profile: Profile,
    /// The columns of the table that add_unique() named, and the name of this one.
    fields: String,
    name: String,
}

impl<'c> UniqueTable<'c> {
    /// Returns `None` if the table does not belong to the constraint, or is gone.
    pub fn of(
        connection: &'c Connection,
        (type_id, generation): (i32, i64),
        table: Oid,
    ) -> Result<Option<Self>, ClaimsError> {
        let columns = unique_tables::columns(connection, table);
        let Some(column) = columns.into_iter().find(|column| column.type_id == type_id) else { return Ok(None) };
        if column.has_unique_text != Some(true) {
            let type_name = column.type_name.unwrap_or_default();
            return Err(UniqueError::UnfitColumn { column: column.column_name, type_name }.into());
        }
        let fields = unique_tables::columns_in_order(connection, column.root).flatten().unwrap_or_default();
        let Some(name) = unique_tables::quoted_name(connection, table) else { return Ok(None) };
        let profile = catalog::current(connection).types.profile_of(&column.name);
        Ok(Some(UniqueTable { connection, generation, column, profile, fields, name }))
    }

    /// Builds a query for the values. `of_rows` follows FROM, and chooses or locks rows.
    pub fn query(&self, of_rows: &str) -> String {
        let UniqueTable { fields, name, .. } = self;
        let (value, root) = (self.column.value_expression(), &self.column.quoted_root);
        let values = format!("SELECT {value} AS value FROM (SELECT {fields} FROM ONLY {name} {of_rows}) AS {root}");
        format!("SELECT v.value FROM ({values}) v WHERE v.value IS NOT NULL")
    }

    /// Runs `body` with the rights of the owner of the table that add_unique() named. Raises an error instead of reading only those rows that a
    /// policy shows.
    pub fn as_owner<T>(&self, body: impl FnOnce() -> T) -> T {
        restricted_as(self.column.owner, || under(&[(c"row_security", c"off")], || with_fixed_text(body)))
    }

    /// Calls `each` for every value that a query returns. `as_caller`: with the active snapshot.
    pub fn read(&self, query: &str, as_caller: bool, mut each: impl FnMut(BoundedText)) {
        let row = |row: pg::spi::Row| values_of(&row, 1).flatten().for_each(&mut each);
        self.as_owner(|| self.connection.stream(query, [], as_caller, row));
    }

    /// Returns the canonical form of a value. The error says why no claim can have it.
    pub fn canonical(&self, value: BoundedText) -> Result<Canonical, ClaimsError> {
        let names = || (self.column.root_name.clone(), self.column.column_name.clone());
        let text = match value {
            BoundedText::Text(text) if text.is_empty() => {
                let (table, column) = names();
                return Err(UniqueError::EmptyText { table, column }.into());
            }
            BoundedText::Text(text) => Ok(text),
            BoundedText::TooLong { bytes } => Err(Excess::UnreadName { bytes }),
        };
        let named = |text| NamedBucket::named("".into(), self.profile, text).map_err(Excess::Name);
        match text.and_then(named) {
            Ok((bucket, display)) if !bucket.is_forbidden => Ok((bucket.value, display)),
            Ok((bucket, _)) => {
                let (column, profile) = (self.column.column_name.clone(), self.profile.name());
                Err(UniqueError::Refused { column, value: bucket.value, profile }.into())
            }
            Err(excess) => {
                let (table, column) = names();
                Err(UniqueError::TooLong { table, column, excess }.into())
            }
        }
    }

    /// Claims values. Returns those that are claimed already, for this table or another one. The caller has the rights of the extension's owner.
    pub fn claim(&self, values: &[Canonical]) -> Vec<String> {
        let (connection, type_id, generation) = (self.connection, self.column.type_id, self.generation);
        let claim = |values: &[&Canonical]| {
            let (values, displays): (Vec<_>, Vec<_>) = values.iter().map(|value| (*value).clone()).unzip();
            unique_tables::claim_values(connection, type_id, generation, &values, displays)
        };
        let taken = claim(&values.iter().collect::<Vec<_>>());
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
        let again: Vec<_> = values.iter().filter(|(value, _)| taken.contains(value)).collect();
        claim(&again)
    }
}
