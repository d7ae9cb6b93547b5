//! Statements on the cell's own tables: the rows that call for claims.
//!
//! The texts are put together from what claims.claimed_attributes says, names quoted; they are run as the table's
//! owner, because conditions and the output of columns are the owner's code.

use std::borrow::Cow;
use std::ffi::CStr;

use claims_model::source_key;
use claims_model::source_range::SourceRange;
use claims_model::{Profile, Types};
use pgrx::pg_sys::Oid;

use super::keys::{KeyKind, Parameters, Stretch, StretchPart, base_type};
use crate::pg::owner::restricted_as;
use crate::pg::settings::{FIXED_TEXT, under};
use crate::pg::spi::{Connection, Row, View};
use crate::pg::statement::statement;
use crate::pg::subtransaction::{Stopped, attempt};
use crate::pg::xact;
use crate::store::catalog;

/// Whether the table has an index of canonical forms that its owner may use.
macro_rules! has_form_index {
    () => {
        "has_schema_privilege(c.relowner, 'claims', 'USAGE')
         AND has_function_privilege(c.relowner, 'claims.canonical_form(text, text)', 'EXECUTE')
         AND EXISTS (SELECT FROM pg_depend d JOIN pg_index i ON i.indexrelid = d.objid
                      WHERE d.refclassid = 'pg_proc'::regclass AND d.refobjid = 'claims.canonical_form(text, text)'::regprocedure
                        AND d.classid = 'pg_class'::regclass AND i.indrelid = c.oid AND i.indisvalid)"
    };
}

macro_rules! attributes {
    ($condition:literal) => {
        concat!(
            "SELECT c.oid, quote_ident(n.nspname) || '.' || quote_ident(c.relname), quote_ident(c.relname), c.relkind = 'r', c.relowner,
                    quote_ident(a.attribute), a.bucket_type, a.subject_type, quote_ident(a.subject_key), a.source_type,
                    quote_ident(a.source_key), a.condition, greatest(c.reltuples, 0)::bigint, k.attnotnull IS TRUE,
                    k.base_type, y.typcategory = 'S', format_type(k.base_type, -1), ", has_form_index!(), "
               FROM claims.claimed_attributes a
               JOIN pg_class c ON c.oid = a.table_name JOIN pg_namespace n ON n.oid = c.relnamespace
               LEFT JOIN (SELECT k.*, ", base_type!("k"), " AS base_type FROM pg_attribute k) k
                      ON k.attrelid = c.oid AND k.attname = a.source_key AND k.attnum > 0 AND NOT k.attisdropped
               LEFT JOIN pg_type y ON y.oid = k.base_type
              WHERE ", $condition, " ORDER BY c.oid, a.attribute"
        )
    };
}

statement! {
    /// The attributes whose claims come from source type $1.
    OF_SOURCE(TEXTOID) = attributes!("a.source_type = $1");
    /// The attributes that claim buckets of type $1.
    OF_BUCKET(TEXTOID) = attributes!("a.bucket_type = $1");
}

/// Rows that a policy would hide are an error, and not left out silently.
const NO_ROWS_HIDDEN: &[(&CStr, &CStr)] = &[(c"row_security", c"off")];

/// A claimed column. All names but the types' are quoted.
#[derive(Clone, PartialEq, Eq)]
pub struct Attribute {
    table: Oid,
    table_name: String,
    /// The table's own name, by which conditions know it.
    alias: String,
    /// A table of its own, whose heirs are tables of their own; otherwise one that consists of its partitions.
    plain: bool,
    owner: Oid,
    column: String,
    pub bucket_type: String,
    /// By which its values are compared.
    pub profile: Profile,
    pub subject_type: String,
    subject_key: String,
    pub source_type: String,
    source_key: String,
    condition: Option<String>,
    /// Rows of the table, as last counted by ANALYZE.
    pub rows: i64,
    /// Every row has a key.
    has_keys: bool,
    kind: KeyKind,
    /// The key's type without its domains.
    key_type: String,
    /// It is a type of strings: any text may be a key.
    any_text: bool,
    /// An index of the table knows canonical forms, perhaps those of the column.
    has_form_index: bool,
}

fn attribute(row: Row, types: &Types) -> Attribute {
    let bucket_type: String = row.must(7);
    Attribute {
        table: row.must(1),
        table_name: row.must(2),
        alias: row.must(3),
        plain: row.must(4),
        owner: row.must(5),
        column: row.must(6),
        profile: types.profile_of(&bucket_type),
        bucket_type,
        subject_type: row.must(8),
        subject_key: row.must(9),
        source_type: row.must(10),
        source_key: row.must(11),
        condition: row.get(12),
        rows: row.must(13),
        has_keys: row.must(14),
        kind: KeyKind::of(row.get(15)),
        any_text: row.get(16).unwrap_or(false),
        key_type: row.get(17).unwrap_or_default(),
        has_form_index: row.must(18),
    }
}

/// The attributes whose claims come from a source type.
pub fn of_source(connection: &Connection, source_type: &str) -> Vec<Attribute> {
    let catalog = catalog::current(connection);
    connection.run(&OF_SOURCE, View::Caller, [source_type.into()]).map(|row| attribute(row, &catalog.types))
}

/// The attributes that claim buckets of a type.
pub fn of_bucket(connection: &Connection, bucket_type: &str) -> Vec<Attribute> {
    let catalog = catalog::current(connection);
    connection.run(&OF_BUCKET, View::Caller, [bucket_type.into()]).map(|row| attribute(row, &catalog.types))
}

/// A row that calls for a claim.
pub struct Calling {
    pub source_id: Option<String>,
    pub value: String,
    pub subject_id: Option<String>,
}

fn calling(row: Row) -> Calling {
    Calling { source_id: row.get(1), value: row.must(2), subject_id: row.get(3) }
}

/// How rows are to be held until the (sub)transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    No,
    /// Against every change and against deletion, but not against each other. Rows that another transaction is changing
    /// are passed over.
    Unchanged,
}

impl Attribute {
    /// What the owner wrote, with the owner's rights, and under settings by which it is the same in every session.
    fn as_owner<T>(&self, body: impl FnOnce() -> T) -> T {
        restricted_as(self.owner, || under(NO_ROWS_HIDDEN, || under(FIXED_TEXT, body)))
    }

    /// Whether two attributes are columns of one table with one key.
    pub fn has_rows_of(&self, other: &Attribute) -> bool {
        self.table == other.table && self.source_key == other.source_key
    }

    /// The rows that call for claims.
    fn query(&self, condition: &str, hold: Hold) -> String {
        let Attribute { alias, column, subject_key, source_key, .. } = self;
        let own_condition = self.condition.as_deref().map_or(String::new(), |text| format!(" AND ({text})"));
        let hold = match hold {
            Hold::No => String::new(),
            Hold::Unchanged => format!(" FOR SHARE OF {alias} SKIP LOCKED"),
        };
        format!(
            "SELECT {alias}.{source_key}::pg_catalog.text, {alias}.{column}::pg_catalog.text,
                    {alias}.{subject_key}::pg_catalog.text
               FROM {} WHERE {condition} AND {alias}.{column} IS NOT NULL{own_condition}{hold}",
            self.from()
        )
    }

    /// The table and its name in the query. Heirs of a plain table are tables of their own; partitions are not.
    fn from(&self) -> String {
        format!("{}{} AS {}", if self.plain { "ONLY " } else { "" }, self.table_name, self.alias)
    }

    fn key(&self) -> String {
        format!("{}.{}", self.alias, self.source_key)
    }

    /// Hands over the rows whose keys lie in a range, in no order; rows without a key come before all others.
    /// `as_caller`: as the calling query sees them.
    pub fn each(&self, connection: &Connection, range: &SourceRange, as_caller: bool, mut each: impl FnMut(Calling)) {
        let without_key = (range.above.is_none() && !self.has_keys).then_some(Stretch::Nulls);
        for stretch in self.kind.stretches(range).into_iter().chain(without_key).filter(|keys| !keys.is_empty()) {
            for part in stretch.parts() {
                let mut parameters = Parameters::default();
                let text = self.query(&part.condition(&self.key(), &mut parameters), Hold::No);
                let values = parameters.values();
                self.as_owner(|| connection.stream(&text, values, as_caller, |row| each(calling(row))));
            }
        }
    }

    /// The rows with these source ids.
    pub fn with_ids(&self, connection: &Connection, ids: &[&str], hold: Hold) -> Vec<Calling> {
        let mut parameters = Parameters::default();
        let among = self.kind.among(&self.key(), ids, &mut parameters);
        among.map_or_else(Vec::new, |condition| self.now(connection, &condition, parameters, hold))
    }

    /// The canonical form of a value; `None`: its type does not take it.
    pub fn canonical(&self, value: &str) -> Option<String> {
        self.profile.canonical(value).ok().map(Cow::into_owned)
    }

    /// The rows with these names, which are canonical.
    pub fn with_values(&self, connection: &Connection, values: &[&str]) -> Vec<Calling> {
        if self.profile != Profile::Exact {
            return self.with_names(connection, values);
        }
        let (condition, parameters) = self.has_values(values);
        self.now(connection, &condition, parameters, Hold::No)
    }

    /// The same: what is committed right now, and what this transaction did, whatever its isolation level.
    pub fn with_values_now(&self, connection: &Connection, values: &[&str]) -> Vec<Calling> {
        if self.profile != Profile::Exact {
            return self.with_names_now(connection, values);
        }
        let (condition, parameters) = self.has_values(values);
        let text = self.query(&condition, Hold::No);
        self.as_owner(|| connection.run_text_now(&text, parameters.values()).map(calling))
    }

    /// An ordinary index knows no canonical forms: every row is looked at, where there is none that does.
    fn with_names(&self, connection: &Connection, names: &[&str]) -> Vec<Calling> {
        let (condition, parameters) = self.may_have_names(names);
        let (text, mut found) = (self.query(&condition, Hold::No), Vec::new());
        let mut keep = |row: Row| found.extend(Some(calling(row)).filter(|calling| self.is_one_of(calling, names)));
        self.as_owner(|| connection.stream(&text, parameters.values(), false, &mut keep));
        found
    }

    fn with_names_now(&self, connection: &Connection, names: &[&str]) -> Vec<Calling> {
        // A statement of its own sees what is committed right now, unless the transaction keeps one snapshot.
        if !xact::keeps_one_snapshot() {
            return self.with_names(connection, names);
        }
        let (condition, parameters) = self.may_have_names(names);
        let text = self.query(&condition, Hold::No);
        let rows = self.as_owner(|| connection.run_text_now(&text, parameters.values()).map(calling));
        rows.into_iter().filter(|calling| self.is_one_of(calling, names)).collect()
    }

    /// What all rows with these names fulfil, and as few others as can be.
    fn may_have_names(&self, names: &[&str]) -> (String, Parameters) {
        let mut parameters = Parameters::default();
        if !self.has_form_index {
            return (self.has_key(), parameters);
        }
        let names = parameters.add(names.to_vec());
        // As docs/names.md has it: the index is found by its expression.
        let form = format!(
            "claims.canonical_form('{}', {}.{}::pg_catalog.text)",
            self.profile.name(),
            self.alias,
            self.column
        );
        (format!("{form} = ANY ({names}) AND {}", self.has_key()), parameters)
    }

    fn is_one_of(&self, calling: &Calling, names: &[&str]) -> bool {
        self.profile.canonical(&calling.value).is_ok_and(|canonical| names.contains(&&*canonical))
    }

    fn has_key(&self) -> String {
        format!("{} IS NOT NULL", self.key())
    }

    fn has_values(&self, values: &[&str]) -> (String, Parameters) {
        let mut parameters = Parameters::default();
        let values = parameters.add(values.to_vec());
        let value = format!("{}.{}::pg_catalog.text", self.alias, self.column);
        (format!("{value} = ANY ({values}) AND {}", self.has_key()), parameters)
    }

    /// Rows that are there right now.
    fn now(&self, connection: &Connection, condition: &str, parameters: Parameters, hold: Hold) -> Vec<Calling> {
        let text = self.query(condition, hold);
        self.as_owner(|| connection.run_text(&text, parameters.values()).map(calling))
    }

    /// Keys of the table that lie together and have ids in a range; the first stretch is in the order of the ids.
    pub fn stretches(&self, range: &SourceRange) -> Vec<Stretch> {
        self.kind.stretches(range)
    }

    /// The source id of the key that stands at `place` of the table's keys in a stretch, counted from 0 in the order of
    /// the ids; without `place`, that in the middle. `None`: there are not so many.
    pub fn id_at(&self, connection: &Connection, stretch: &Stretch, place: Option<i64>) -> Option<String> {
        if stretch.is_empty() {
            return None;
        }
        let (key, from, mut parameters) = (self.key(), self.from(), Parameters::default());
        let condition = stretch.in_order_of_ids(&key, &mut parameters);
        let place = match place {
            Some(place) => parameters.add(place),
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
            "SELECT {key}::pg_catalog.text FROM {from} WHERE {condition} ORDER BY {order} OFFSET {place} LIMIT 1"
        );
        self.as_owner(|| connection.run_text(&text, parameters.values()).first(|row| row.must(1)))
    }

    /// Whether a row of the table can have this source id: whether it is the text of a value of the key's type. Of types
    /// other than integers, uuids and strings the type itself is asked.
    pub fn can_have(&self, connection: &Connection, id: &str) -> bool {
        match self.kind {
            KeyKind::Integer => source_key::integer(id).is_some(),
            KeyKind::Uuid => source_key::uuid(id).is_some(),
            KeyKind::Text if self.any_text => true,
            KeyKind::Text => self.is_value(connection, id),
        }
    }

    fn is_value(&self, connection: &Connection, id: &str) -> bool {
        let text = format!("SELECT $1::{}::pg_catalog.text COLLATE pg_catalog.\"C\" = $1", self.key_type);
        let cast = || self.as_owner(|| connection.run_text(&text, [id.into()]).first(|row| row.get(1)).flatten());
        match attempt(|| cast().ok_or(())) {
            Ok(is_same) => is_same,
            Err(Stopped::ByBody(())) => false,
            Err(Stopped::ByError(caught)) if caught.is_about_data() => false,
            Err(Stopped::ByError(caught)) => caught.rethrow(),
        }
    }
}
