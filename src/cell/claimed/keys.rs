//! The keys of claimed tables: integers, uuids, and all other types with a fixed text.
//!
//! For integers and uuids a range of source ids becomes a condition on the column, which an index on the column can serve: their
//! own order agrees with the order of their texts. Other keys are compared as texts in the service's order, which an index on
//! the two expressions of [`order`] serves.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use claims_model::limits::ID_CHARS;
use claims_model::source_key;
use claims_model::source_range::{Section, SourceRange};
use pgrx::pg_sys::{self, Oid};
use uuid::Uuid;

use pg::spi::Value;
use pg::uuid::pg_uuid;

/// The type of column `$attribute` (a row of pg_attribute) beneath all its domains.
macro_rules! base_type {
    ($attribute:literal) => {
        concat!(
            "(WITH RECURSIVE base AS (
                SELECT y.oid, y.typtype, y.typbasetype FROM pg_type y WHERE y.oid = ",
            $attribute,
            ".atttypid
                UNION ALL
                SELECT y.oid, y.typtype, y.typbasetype FROM base JOIN pg_type y ON base.typtype = 'd' AND y.oid = base.typbasetype)
              SELECT base.oid FROM base WHERE base.typtype <> 'd')"
        )
    };
}
pub(super) use base_type;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    Integer,
    Uuid,
    /// Any other type, compared by its text.
    Text,
}

impl KeyKind {
    /// Returns the kind for a column's type beneath its domains.
    pub fn of(base_type: Option<Oid>) -> KeyKind {
        match base_type {
            Some(pg_sys::INT2OID | pg_sys::INT4OID | pg_sys::INT8OID) => KeyKind::Integer,
            Some(pg_sys::UUIDOID) => KeyKind::Uuid,
            _ => KeyKind::Text,
        }
    }

    /// Returns the stretches of keys whose ids are in a range. The first one is in the order of the ids.
    pub fn stretches(self, range: &SourceRange) -> Vec<Stretch> {
        match self {
            KeyKind::Integer => {
                let integers = range.integers();
                vec![Stretch::Integers(integers.natural), Stretch::Integers(integers.negative)]
            }
            KeyKind::Uuid => vec![Stretch::Uuids(range.uuids())],
            KeyKind::Text => vec![Stretch::Texts(range.clone())],
        }
    }

    /// Returns the ORDER BY of keys. An index on it serves the conditions as well.
    pub fn order(self, key: &str, descending: bool) -> String {
        match self {
            KeyKind::Integer | KeyKind::Uuid => format!("{key} {}", if descending { "DESC" } else { "ASC" }),
            KeyKind::Text => order(key),
        }
    }

    /// Builds a condition for the keys that have exactly these texts. It also holds for collations and types in which different texts
    /// are equal. Returns `None` if no key can have one of the texts.
    pub fn among(self, key: &str, ids: &[&str], parameters: &mut Parameters) -> Option<String> {
        let ids = ids.iter().copied();
        match self {
            KeyKind::Integer => {
                let keys: Vec<i64> = ids.filter_map(source_key::integer).collect();
                (!keys.is_empty()).then(|| format!("{key} = ANY ({})", parameters.add(keys)))
            }
            KeyKind::Uuid => {
                let keys: Vec<_> = ids.filter_map(source_key::uuid).map(|key| pg_uuid(Uuid::from_u128(key))).collect();
                (!keys.is_empty()).then(|| format!("{key} = ANY ({})", parameters.add(keys)))
            }
            KeyKind::Text => {
                let ids: Vec<&str> = ids.collect();
                let lengths: HashSet<_> = ids.iter().filter_map(|id| i32::try_from(id.chars().count()).ok()).collect();
                let (ids, lengths) = (parameters.add(ids), parameters.add(Vec::from_iter(lengths)));
                let (length, bytes) = (length(key), bytes(key));
                // A string column's own index serves the first comparison. For other types the index that serves ranges is used.
                Some(format!(
                    "{key}::pg_catalog.text = ANY ({ids}) AND {bytes} = ANY ({ids}) AND {length} = ANY ({lengths})"
                ))
            }
        }
    }
}

fn length(key: &str) -> String {
    format!("pg_catalog.length({key}::pg_catalog.text)")
}

fn bytes(key: &str) -> String {
    format!("({key}::pg_catalog.text) COLLATE pg_catalog.\"C\"")
}

/// Returns the service's order of source ids, with the expressions of the index in docs/cell/verification.md.
fn order(key: &str) -> String {
    format!("{}, {}", length(key), bytes(key))
}

/// A set of keys of one table that are adjacent in an index.
#[derive(Debug)]
pub enum Stretch {
    Integers(RangeInclusive<i64>),
    Uuids(RangeInclusive<u128>),
    Texts(SourceRange),
    /// Rows without a key.
    Nulls,
}

impl Stretch {
    pub fn is_empty(&self) -> bool {
        match self {
            Stretch::Integers(keys) => keys.is_empty(),
            Stretch::Uuids(keys) => keys.is_empty(),
            Stretch::Texts(range) => range.is_void(),
            Stretch::Nulls => false,
        }
    }

    /// Returns whether the keys are negative integers, whose ids are in the opposite order.
    pub fn descends(&self) -> bool {
        matches!(self, Stretch::Integers(keys) if *keys.start() < 0)
    }

    /// Returns the keys in parts, each of which is one range of an index.
    pub fn parts(&self) -> Vec<StretchPart<'_>> {
        match self {
            Stretch::Integers(keys) => vec![StretchPart::Integers(keys)],
            Stretch::Uuids(keys) => vec![StretchPart::Uuids(keys)],
            Stretch::Texts(range) => range.sections().into_iter().map(StretchPart::Texts).collect(),
            Stretch::Nulls => vec![StretchPart::Nulls],
        }
    }

    /// Builds a condition by which an index finds the keys in the order of their ids. It leaves out texts that are too long for an id:
    /// only an id can be a bound in a call to the service.
    pub fn in_order_of_ids(&self, key: &str, parameters: &mut Parameters) -> String {
        let Stretch::Texts(SourceRange { above, up_to }) = self else {
            return self.parts().iter().map(|part| part.condition(key, parameters)).collect();
        };
        let (order, above) = (order(key), parameters.add(above.as_deref().unwrap_or_default()));
        let up_to = up_to.as_deref().map_or(String::new(), |up_to| {
            let up_to = parameters.add(up_to);
            format!(" AND ({order}) <= (pg_catalog.length({up_to}), {up_to})")
        });
        format!("({order}) > (pg_catalog.length({above}), {above}){up_to} AND {} <= {ID_CHARS}", length(key))
    }
}

/// The keys of a stretch that one condition selects.
pub enum StretchPart<'s> {
    Integers(&'s RangeInclusive<i64>),
    Uuids(&'s RangeInclusive<u128>),
    Texts(Section<'s>),
    Nulls,
}

impl StretchPart<'_> {
    pub fn condition(&self, key: &str, parameters: &mut Parameters) -> String {
        match self {
            StretchPart::Integers(keys) => parameters.between(key, *keys.start(), *keys.end()),
            StretchPart::Uuids(keys) => {
                let [first, last] = [keys.start(), keys.end()].map(|bound| pg_uuid(Uuid::from_u128(*bound)));
                parameters.between(key, first, last)
            }
            StretchPart::Texts(Section::Lengths(lengths)) => {
                parameters.between(&length(key), *lengths.start(), *lengths.end())
            }
            StretchPart::Texts(Section::OfLength { length: chars, above, up_to }) => {
                let (length, bytes) = (length(key), bytes(key));
                let (chars, above) = (parameters.add(*chars), parameters.add(*above));
                let up_to = up_to.map_or(String::new(), |up_to| format!(" AND {bytes} <= {}", parameters.add(up_to)));
                format!("{length} = {chars} AND {bytes} > {above}{up_to}")
            }
            StretchPart::Nulls => format!("{key} IS NULL"),
        }
    }
}

/// The parameters of a statement, in the order in which they were added.
#[derive(Default)]
pub struct Parameters(Vec<Value>);

impl Parameters {
    /// Adds a parameter, and returns its placeholder.
    pub fn add(&mut self, value: impl Into<Value>) -> String {
        self.0.push(value.into());
        format!("${}", self.0.len())
    }

    fn between<T: Into<Value>>(&mut self, expression: &str, first: T, last: T) -> String {
        let (first, last) = (self.add(first), self.add(last));
        format!("{expression} BETWEEN {first} AND {last}")
    }

    pub fn values(self) -> Vec<Value> {
        self.0
    }
}
