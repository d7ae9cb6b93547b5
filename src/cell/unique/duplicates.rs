//! `unique_duplicates`: finds the values that stand more than once.
//!
//! Values are read with the rights of their table's owner, and grouped here. So no code of the owner's, in a cast or a view, gets the rights of
//! the administrator who asks.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;

use claims_model::Profile;
use claims_model::capture::NamedBucket;
use pgrx::pg_sys::Oid;

use super::columns::{value_expression, values_of};
use super::declare::{must_fit, tables};
use crate::cell::claimed::unique_tables::MemberColumn;
use crate::kernel::access;
use crate::kernel::arguments;
use crate::kernel::call::answer;
use crate::kernel::catalog;
use crate::kernel::error::ClaimsError;
use pg::lock::{self, Strength};
use pg::name::Name;
use pg::owner::restricted_as;
use pg::prelude::*;
use pg::settings::{under, with_fixed_text};
use pg::spi::{self, Connection};
use pg::stored::BoundedText;

#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn find_duplicates(
    table_names: Option<Vec<Option<Oid>>>,
    column_name: Option<Name>,
    profile: Option<String>,
    conditions: Option<Vec<Option<String>>>,
) -> Result<
    TableIterator<'static, (name!(bucket_value, String), name!(rows, i64), name!(found_in, Vec<Oid>))>,
    ErrorReport,
> {
    answer(|| {
        access::read_as_administrator()?;
        let Name(column) = arguments::required(column_name, "column_name")?;
        let profile = arguments::profile(profile)?;
        let tables = tables(table_names, conditions.unwrap_or_default())?;
        let rows = spi::connect(|connection| {
            let readable = |(table, condition): &(Oid, Option<String>)| {
                Readable::new(connection, *table, &column, condition.as_deref())
            };
            let tables = tables.iter().map(readable).collect::<Result<Vec<_>, _>>()?;
            Ok::<_, ClaimsError>(duplicates(connection, &tables, profile))
        })?;
        Ok(TableIterator::new(rows))
    })
}

/// Returns the values of a constraint that stand more than once, as [find_duplicates] does, in the active snapshot.
pub fn of_members(
    connection: &Connection,
    name: &str,
    members: &[MemberColumn],
) -> Result<Vec<(String, i64, Vec<Oid>)>, ClaimsError> {
    let readable = |member: &MemberColumn| {
        Readable::new(connection, member.root, &member.column_name, member.condition.as_deref())
    };
    let tables = members.iter().map(readable).collect::<Result<Vec<_>, _>>()?;
    Ok(duplicates(connection, &tables, catalog::current(connection).types.profile_of(name)))
}

/// A table whose values are compared.
struct Readable {
    owner: Oid,
    /// Returns each value, and the table or partition in which it stands.
    query: String,
}

impl Readable {
    fn new(connection: &Connection, table: Oid, column: &str, condition: Option<&str>) -> Result<Self, ClaimsError> {
        // From here on the table keeps its name, its kind and the types of its columns.
        lock::table(table, Strength::AsReader);
        let (owner, found) = must_fit(connection, table, column)?;
        let (root, only) = (&found.quoted_table, if found.is_partitioned { "" } else { "ONLY " });
        let value = value_expression(root, &found.quoted_column, found.is_citext, condition);
        let query = format!(
            "SELECT v.value, v.stands_in FROM (SELECT {value} AS value, {root}.tableoid::pg_catalog.text AS stands_in
               FROM {only}{} AS {root}) v WHERE v.value IS NOT NULL",
            found.qualified_table
        );
        Ok(Readable { owner, query })
    }

    /// Calls `each` for the canonical form of every value, with the value and its table. Leaves out those that no unique can have.
    fn read(&self, connection: &Connection, profile: Profile, mut each: impl FnMut(String, String, &str)) {
        let no_type: Rc<str> = "".into();
        let row = |row: pg::spi::Row| {
            let mut read = values_of(&row, 2).map(|column| column.and_then(text));
            let (Some(Some(value)), Some(Some(table))) = (read.next(), read.next()) else { return };
            match NamedBucket::named(no_type.clone(), profile, value) {
                Ok((bucket, display)) if !bucket.is_forbidden => {
                    let value = display.unwrap_or_else(|| bucket.value.clone());
                    each(bucket.value, value, &table);
                }
                _ => {}
            }
        };
        // An error instead of rows that a policy hides.
        let read = || connection.stream(&self.query, [], true, row);
        restricted_as(self.owner, || under(&[(c"row_security", c"off")], || with_fixed_text(read)));
    }
}

/// Returns a text that was read, unless it is too long for any claim.
fn text(read: BoundedText) -> Option<String> {
    match read {
        BoundedText::Text(text) => Some(text),
        BoundedText::TooLong { .. } => None,
    }
}

/// The rows that have one canonical form.
#[derive(Default)]
struct EqualValues {
    /// The lowest of their spellings.
    value: Option<String>,
    rows: i64,
    tables: BTreeSet<u32>,
}

/// Returns the values that stand more than once, each with the number of its rows, and its tables. The tables are read twice: first only hashes are
/// stored, eight bytes for a row.
fn duplicates(connection: &Connection, tables: &[Readable], profile: Profile) -> Vec<(String, i64, Vec<Oid>)> {
    let (hashed, mut hashes) = (RandomState::new(), Vec::new());
    for table in tables {
        table.read(connection, profile, |form, _, _| hashes.push(hashed.hash_one(form)));
    }
    hashes.sort_unstable();
    let several: HashSet<u64> = hashes.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    drop(hashes);
    let mut groups: BTreeMap<String, EqualValues> = BTreeMap::new();
    for table in tables.iter().filter(|_| !several.is_empty()) {
        table.read(connection, profile, |form, value, table| {
            if several.contains(&hashed.hash_one(&form)) {
                let group = groups.entry(form).or_default();
                group.rows += 1;
                group.tables.extend(table.parse::<u32>());
                group.value = group.value.take().into_iter().chain([value]).min();
            }
        });
    }
    let rows = groups.into_values().filter(|group| group.rows > 1);
    rows.map(|EqualValues { value, rows, tables }| {
        (value.unwrap_or_default(), rows, tables.into_iter().map(Oid::from).collect())
    })
    .collect()
}
