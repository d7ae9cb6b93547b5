//! Statements on the cell's own tables: they return the rows that need a claim.
//!
//! The texts are built from claims.claimed_attributes, with quoted names. They run as the table's owner, because conditions and
//! the output functions of columns are the owner's code.

use std::borrow::Cow;
use std::collections::HashSet;
use std::convert::Infallible;
use std::ffi::CStr;
use std::ops::Deref;

use claims_model::capture::READ_BYTES;
use claims_model::enforcement::{Enforcement, EnforcementMode};
use claims_model::origin::Approval;
use claims_model::source_range::SourceRange;
use claims_model::{Profile, Types, source_key};
use pgrx::pg_sys::Oid;

use super::authority::{self, OwnCell};
pub use super::claimed_row::{ClaimedRow, ShareLock};
use super::declarations::{DeclaredAttribute, declared};
use super::keys::{KeyKind, Parameters, Stretch, StretchPart};
use super::search_index::{self, MissingIndex};
use crate::kernel::catalog;
use pg::owner::restricted_as;
use pg::query::{Answer, Record};
use pg::settings::{under, with_fixed_text};
use pg::spi::{Connection, Row};
use pg::subtransaction::{Stopped, attempt};
use pg::xact;

/// Makes PostgreSQL raise an error where a row security policy would hide rows.
const NO_ROWS_HIDDEN: &[(&CStr, &CStr)] = &[(c"row_security", c"off")];

/// A claimed column.
#[derive(Clone, PartialEq, Eq)]
pub struct Attribute {
    declared: DeclaredAttribute,
    /// The profile that compares the column's values.
    pub profile: Profile,
    kind: KeyKind,
    enforcement: Enforcement,
    /// Whether the declaration may claim names for the cell of this database ([authority]).
    pub is_accepted: bool,
}

impl Deref for Attribute {
    type Target = DeclaredAttribute;

    fn deref(&self) -> &DeclaredAttribute {
        &self.declared
    }
}

/// Returns the attributes whose claims have a source type, also those that are off or not accepted.
pub fn of_source(connection: &Connection, source_type: &str) -> Vec<Attribute> {
    attributes(connection, declared(connection, Some(source_type), None))
}

/// Returns the attributes that claim buckets of a type, also those that are off.
pub fn of_bucket(connection: &Connection, bucket_type: &str) -> Vec<Attribute> {
    let all = attributes(connection, declared(connection, None, Some(bucket_type))).into_iter();
    all.filter(|attribute| attribute.is_accepted).collect()
}

fn attributes(connection: &Connection, declared: Vec<DeclaredAttribute>) -> Vec<Attribute> {
    let (catalog, own_cell) = (catalog::current(connection), authority::own_cell(connection));
    declared.into_iter().map(|declared| Attribute::new(declared, &catalog.types, own_cell.as_ref())).collect()
}

impl Attribute {
    fn new(declared: DeclaredAttribute, types: &Types, own_cell: Option<&OwnCell>) -> Self {
        let owner = declared.approved_owner.map(Oid::to_u32);
        let approval = Approval { owner, cell_id: declared.approved_cell };
        Attribute {
            profile: types.profile_of(&declared.bucket_type),
            kind: KeyKind::of(declared.base_type),
            enforcement: Enforcement::stored(declared.enforcement.as_deref(), declared.share),
            is_accepted: own_cell.is_none_or(|cell| cell.accepts(declared.relowner, &approval)),
            declared,
        }
    }

    /// Runs `body` with the owner's rights, under settings that give the owner's code the same result in every session.
    pub(super) fn as_owner<T>(&self, body: impl FnOnce() -> T) -> T {
        restricted_as(self.relowner, || under(NO_ROWS_HIDDEN, || with_fixed_text(body)))
    }

    /// Returns whether none of its rows calls for a claim now.
    pub fn is_dormant(&self) -> bool {
        !self.is_accepted || self.enforcement.of_all() == Some(EnforcementMode::Off)
    }

    /// Returns whether rows with some names call for no claim now.
    pub fn is_off_for_some(&self) -> bool {
        !self.is_accepted || self.enforcement.is_off()
    }

    /// Returns whether a row with this name, in canonical form, calls for no claim now.
    pub fn is_off(&self, name: &str) -> bool {
        !self.is_accepted || self.enforcement.of(name) == EnforcementMode::Off
    }

    /// Returns whether two attributes are columns of one table with the same key.
    pub fn has_rows_of(&self, other: &Attribute) -> bool {
        self.oid == other.oid && self.quoted_source_key == other.quoted_source_key
    }

    /// Builds the query for the rows that need a claim.
    pub(super) fn query(&self, condition: &str, row_lock: ShareLock) -> String {
        let DeclaredAttribute { alias, quoted_column, quoted_subject_key, quoted_source_key, .. } = &self.declared;
        let own_condition = self.condition.as_deref().map_or(String::new(), |text| format!(" AND ({text})"));
        let row_lock = match row_lock {
            ShareLock::None => String::new(),
            ShareLock::Share => format!(" FOR SHARE OF {alias} SKIP LOCKED"),
            ShareLock::ShareOrError => format!(" FOR SHARE OF {alias} NOWAIT"),
        };
        format!(
            "SELECT {alias}.{quoted_source_key}::pg_catalog.text AS source_id, {alias}.{quoted_column}::pg_catalog.text AS value,
                    {alias}.{quoted_subject_key}::pg_catalog.text AS subject_id
               FROM {} WHERE {condition} AND {alias}.{quoted_column} IS NOT NULL{own_condition}{row_lock}",
            self.from()
        )
    }

    /// Builds the FROM item. ONLY leaves out tables that inherit from an ordinary table; a partitioned table includes its partitions.
    pub(super) fn from(&self) -> String {
        format!("{}{} AS {}", if self.is_plain { "ONLY " } else { "" }, self.quoted_name, self.alias)
    }

    fn key(&self) -> String {
        format!("{}.{}", self.alias, self.quoted_source_key)
    }

    /// Passes the rows whose keys are in a range to `each`, in no order. Rows without a key belong to the range that has no lower
    /// bound. With `as_caller` the rows are those that the claimed_row query sees.
    pub fn each(
        &self,
        connection: &Connection,
        range: &SourceRange,
        as_caller: bool,
        mut each: impl FnMut(ClaimedRow),
    ) {
        for (condition, parameters) in self.conditions(range) {
            let (text, values) = (self.query(&condition, ShareLock::None), parameters.values());
            self.as_owner(|| connection.stream(&text, values, as_caller, |row| each(ClaimedRow::read(&row))));
        }
    }

    /// Returns the rows whose keys are in a range, in no order, as committed now. Rows without a key belong to the range that has no
    /// lower bound.
    pub fn in_range(&self, connection: &Connection, range: &SourceRange, row_lock: ShareLock) -> Vec<ClaimedRow> {
        let conditions = self.conditions(range).into_iter();
        conditions.flat_map(|(condition, parameters)| self.now(connection, &condition, parameters, row_lock)).collect()
    }

    /// Builds conditions that select the rows whose keys are in a range, each by one range of an index.
    fn conditions(&self, range: &SourceRange) -> Vec<(String, Parameters)> {
        let without_key = (range.above.is_none() && !self.has_keys).then_some(Stretch::Nulls);
        let stretches = self.kind.stretches(range).into_iter().chain(without_key).filter(|keys| !keys.is_empty());
        let of_stretch = |keys: Stretch| keys.parts().iter().map(|part| self.condition_on(part)).collect::<Vec<_>>();
        stretches.flat_map(of_stretch).collect()
    }

    fn condition_on(&self, part: &StretchPart) -> (String, Parameters) {
        let mut parameters = Parameters::default();
        (part.condition(&self.key(), &mut parameters), parameters)
    }

    /// Returns the rows with these source ids.
    pub fn with_ids(&self, connection: &Connection, ids: &[&str], row_lock: ShareLock) -> Vec<ClaimedRow> {
        let mut parameters = Parameters::default();
        let among = self.kind.among(&self.key(), ids, &mut parameters);
        among.map_or_else(Vec::new, |condition| self.now(connection, &condition, parameters, row_lock))
    }

    /// Returns the canonical form of a value, or `None` if the profile refuses it.
    pub fn canonical(&self, value: &str) -> Option<String> {
        self.profile.canonical(value).ok().map(Cow::into_owned)
    }

    /// Returns the rows with these names, which are in canonical form.
    pub fn with_values(&self, connection: &Connection, values: &[&str]) -> Vec<ClaimedRow> {
        if self.profile != Profile::Exact {
            return self.with_names(connection, values);
        }
        let (condition, parameters) = self.has_values(values);
        self.now(connection, &condition, parameters, ShareLock::None)
    }

    /// Like [Self::with_values], with the latest snapshot under every isolation level: it sees what is committed now and what this
    /// transaction did.
    pub fn with_values_now(&self, connection: &Connection, values: &[&str]) -> Vec<ClaimedRow> {
        if self.profile != Profile::Exact {
            return self.with_names_now(connection, values);
        }
        let (condition, parameters) = self.has_values(values);
        let text = self.query(&condition, ShareLock::None);
        self.as_owner(|| Answer::of(&connection.run_text_now(&text, parameters.values())))
    }

    /// Returns the rows whose canonical form is one of `names`. Without an index on the canonical form it reads every row.
    fn with_names(&self, connection: &Connection, names: &[&str]) -> Vec<ClaimedRow> {
        let (condition, parameters) = self.may_have_names(names);
        let (text, mut found) = (self.query(&condition, ShareLock::None), Vec::new());
        let set = HashSet::from_iter(names.iter().copied());
        let mut keep = |row: Row| found.extend(Some(ClaimedRow::read(&row)).filter(|row| self.is_one_of(row, &set)));
        self.as_owner(|| connection.stream(&text, parameters.values(), false, &mut keep));
        found
    }

    fn with_names_now(&self, connection: &Connection, names: &[&str]) -> Vec<ClaimedRow> {
        // A separate statement has a new snapshot, except in a transaction that keeps one snapshot.
        if !xact::uses_transaction_snapshot() {
            return self.with_names(connection, names);
        }
        let (condition, parameters) = self.may_have_names(names);
        let text = self.query(&condition, ShareLock::None);
        let rows: Vec<ClaimedRow> = self.as_owner(|| Answer::of(&connection.run_text_now(&text, parameters.values())));
        let set = HashSet::from_iter(names.iter().copied());
        rows.into_iter().filter(|claimed_row| self.is_one_of(claimed_row, &set)).collect()
    }

    pub fn table(&self) -> Oid {
        self.oid
    }

    /// Returns whether it is a column of a table; the name is quoted.
    pub fn is_column(&self, table: Oid, quoted_column: &str) -> bool {
        self.oid == table && self.quoted_column == quoted_column
    }

    /// Returns the index without which [`Attribute::with_values_now`] reads every row, or `None` if that index can be used.
    pub fn missing_index(&self, connection: &Connection) -> Option<MissingIndex> {
        search_index::missing(connection, self.oid, &self.quoted_column, self.profile.name())
    }

    /// Builds a condition that all rows with these names fulfil. It is exact where an index knows canonical forms; otherwise it
    /// selects every row with a key, but for texts that are too long for any name, which PostgreSQL need not read to know it.
    fn may_have_names(&self, names: &[&str]) -> (String, Parameters) {
        let mut parameters = Parameters::default();
        if !self.has_form_index {
            let may_be_name = format!(
                "pg_catalog.octet_length({}.{}::pg_catalog.text) OPERATOR(pg_catalog.<=) {READ_BYTES}",
                self.alias, self.quoted_column
            );
            return (format!("{} AND {may_be_name}", self.has_key()), parameters);
        }
        let names = parameters.add(names.to_vec());
        // The planner finds the index by this expression, the one that docs/names.md recommends.
        let (profile, column) = (self.profile.name(), format!("{}.{}", self.alias, self.quoted_column));
        let form = format!("claims.canonical_form('{profile}', {column}::pg_catalog.text)");
        (format!("{form} = ANY ({names}) AND {}", self.has_key()), parameters)
    }

    fn is_one_of(&self, row: &ClaimedRow, names: &HashSet<&str>) -> bool {
        self.profile.canonical(&row.value).is_ok_and(|canonical| names.contains(&*canonical))
    }

    fn has_key(&self) -> String {
        format!("{} IS NOT NULL", self.key())
    }

    fn has_values(&self, values: &[&str]) -> (String, Parameters) {
        let mut parameters = Parameters::default();
        let values = parameters.add(values.to_vec());
        let value = format!("{}.{}::pg_catalog.text", self.alias, self.quoted_column);
        (format!("{value} = ANY ({values}) AND {}", self.has_key()), parameters)
    }

    /// Returns the rows under a condition, by a statement with a snapshot of its own.
    fn now(
        &self,
        connection: &Connection,
        condition: &str,
        parameters: Parameters,
        row_lock: ShareLock,
    ) -> Vec<ClaimedRow> {
        let text = self.query(condition, row_lock);
        self.as_owner(|| Answer::of(&connection.run_text(&text, parameters.values())))
    }

    /// Returns the stretches of keys whose ids are in a range. The first one is in the order of the ids.
    pub fn stretches(&self, range: &SourceRange) -> Vec<Stretch> {
        self.kind.stretches(range)
    }

    /// Returns the id of the key at an offset in a stretch, in the order of the ids; without `offset`, of the key in the middle.
    /// Returns `None` if the stretch has fewer keys.
    pub fn id_at(&self, connection: &Connection, stretch: &Stretch, offset: Option<i64>) -> Option<String> {
        if stretch.is_empty() {
            return None;
        }
        let (key, from, mut parameters) = (self.key(), self.from(), Parameters::default());
        let condition = stretch.in_order_of_ids(&key, &mut parameters);
        let offset = match offset {
            Some(offset) => parameters.add(offset),
            None => {
                let count = |part: &StretchPart| {
                    format!("(SELECT count(*) FROM {from} WHERE {})", part.condition(&key, &mut parameters))
                };
                let counts: Vec<_> = stretch.parts().iter().map(count).collect();
                format!("greatest({} - 1, 0) / 2", counts.join(" + "))
            }
        };
        let order = self.kind.order(&key, stretch.descends());
        let text = format!(
            "SELECT {key}::pg_catalog.text FROM {from} WHERE {condition} ORDER BY {order} OFFSET {offset} LIMIT 1"
        );
        self.as_owner(|| Answer::of(&connection.run_text(&text, parameters.values())))
    }

    /// Returns whether a row of the table can have this source id, which must be the text of a value of the key's type. Types
    /// other than integers, uuids and strings are asked by a cast.
    pub fn can_have(&self, connection: &Connection, id: &str) -> bool {
        match self.kind {
            KeyKind::Integer => source_key::integer(id).is_some(),
            KeyKind::Uuid => source_key::uuid(id).is_some(),
            KeyKind::Text if self.is_string == Some(true) => true,
            KeyKind::Text => self.is_value(connection, id),
        }
    }

    fn is_value(&self, connection: &Connection, id: &str) -> bool {
        let mut parameters = Parameters::default();
        let id = parameters.add(id);
        let text = format!(
            "SELECT {id}::{}::pg_catalog.text COLLATE pg_catalog.\"C\" = {id}",
            self.key_type.as_deref().unwrap_or_default()
        );
        let values = parameters.values();
        let cast = || -> Option<Option<bool>> { self.as_owner(|| Answer::of(&connection.run_text(&text, values))) };
        match attempt(|| Ok::<_, Infallible>(cast().flatten().unwrap_or(false))) {
            Ok(is_same) => is_same,
            Err(Stopped::ByBody(never)) => match never {},
            Err(Stopped::ByError(caught)) if caught.is_about_data() => false,
            Err(Stopped::ByError(caught)) => caught.rethrow(),
        }
    }
}
