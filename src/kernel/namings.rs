//! The rules by which names of bucket types are compared, as of the snapshot in which names are read.
//!
//! The catalog has the rules as of now. A query reads names in its own snapshot, which may be older than the catalog. For a moment it
//! can also be newer, because a commit is visible before its invalidation arrives. A profile and all names of its type change in one
//! transaction. So whoever looks up a name must use the profile of the snapshot in which the name is looked up. The catalog remembers
//! the row versions that it was read from, and one visibility check of such a row tells whether the snapshot has it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::CStr;

use claims_model::{Confusables, Naming, Profile, Types};

use super::tables;
use pg::query::{query, record};
use pg::spi::{self, Connection};
use pg::table::{self, RowStamp, TableRow};

record! {
    /// A bucket type and its rules.
    struct BucketType {
        id: i32,
        profile: String,
        confusables: String,
    }
}

/// Reads the rules where the rows of the table are in shards.
const ALL: &str = "SELECT t.id, t.profile, t.confusables FROM claims.bucket_types t";

query! {
    fn all_in_snapshot() -> Vec<BucketType> = [Caller Anywhere] ALL;
    fn all_latest() -> Vec<BucketType> = [Latest Anywhere] ALL;
}

const TABLE: &CStr = c"bucket_types";

/// The rows of bucket types.
pub struct NamingRows {
    /// Value of [pg::cache::version] when the rows were read.
    pub(super) read_at: u64,
    /// Row versions by type; `None` if a statement has read the rows, which shows no versions.
    pub(super) versions: Option<HashMap<i32, RowStamp>>,
}

/// The comparison rules of the types that do not compare byte by byte, and the row versions that they were read from.
#[derive(PartialEq)]
pub struct Namings {
    naming: HashMap<i32, Naming>,
    versions: Option<HashMap<i32, RowStamp>>,
}

impl Namings {
    /// Returns whether these are the rules and rows of a catalog. A profile that was changed and changed back has another row version.
    pub fn match_catalog(&self, types: &Types, rows: &NamingRows) -> bool {
        self.naming == types.naming && self.versions == rows.versions
    }

    /// Returns `types` with these rules.
    pub fn types(&self, types: &Types) -> Types {
        Types { naming: self.naming.clone(), ..types.clone() }
    }
}

/// Returns the rules of a bucket type, or `None` for the default, byte by byte. The table's CHECK constraints admit no other words.
pub(super) fn naming(profile: &str, confusables: &str) -> Option<Naming> {
    let profile = Profile::parse(profile).unwrap_or_default();
    let confusables = Confusables::parse(confusables).unwrap_or_default();
    let naming = Naming { profile, confusables };
    (naming != Naming::default()).then_some(naming)
}

/// Like [naming], for a row of the table. Adds the row's version.
pub(super) fn of_row(row: &TableRow) -> (Option<Naming>, Option<RowStamp>) {
    (naming(&row.must::<String>(c"profile"), &row.must::<String>(c"confusables")), row.version())
}

/// Returns the types with the rules in the snapshot of the calling query, for type `only` or for all.
pub fn types_in_snapshot<'t>(types: &'t Types, rows: &NamingRows, only: Option<i32>) -> Cow<'t, Types> {
    if are_in_snapshot(rows, only) {
        return Cow::Borrowed(types);
    }
    let rows = if tables::have_rows_here() { table::rows_in_snapshot(TABLE, of_table_row) } else { None };
    let seen =
        rows.map_or_else(|| spi::connect_as_owner(|connection| by_statement(all_in_snapshot(connection))), by_rows);
    if seen.naming == types.naming { Cow::Borrowed(types) } else { Cow::Owned(seen.types(types)) }
}

/// Returns whether the snapshot of the calling query shows exactly these rows.
fn are_in_snapshot(rows: &NamingRows, only: Option<i32>) -> bool {
    let Some(versions) = &rows.versions else { return false };
    let selected = |(id, version): (&i32, _)| only.is_none_or(|only| only == *id).then_some(version);
    let selected = || versions.iter().filter_map(selected);
    // An unknown type has no names, so it needs no check. A trigger locks the table EXCLUSIVE before a profile changes.
    versions.is_empty()
        || table::are_older(TABLE, selected(), rows.read_at)
        || table::are_shown(TABLE, selected(), rows.read_at)
}

/// Returns the rules that are committed now, whether or not an invalidation has arrived.
pub fn latest(connection: &Connection) -> Namings {
    let rows = if tables::have_rows_here() { table::rows(TABLE, of_table_row) } else { None };
    rows.map_or_else(|| by_statement(all_latest(connection)), by_rows)
}

type NamingRow = (i32, (Option<Naming>, Option<RowStamp>));

fn of_table_row(row: &TableRow) -> NamingRow {
    let id = row.must(c"id");
    (id, of_row(row))
}

fn by_rows(rows: Vec<NamingRow>) -> Namings {
    let naming = rows.iter().filter_map(|(id, (naming, _))| Some((*id, (*naming)?))).collect();
    let versions = rows.iter().filter_map(|(id, (_, version))| Some((*id, (*version)?))).collect();
    Namings { naming, versions: Some(versions) }
}

fn by_statement(types: Vec<BucketType>) -> Namings {
    let naming = types.into_iter().filter_map(|row| Some((row.id, naming(&row.profile, &row.confusables)?)));
    Namings { naming: naming.collect(), versions: None }
}
