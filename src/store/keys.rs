//! The keys of claimed tables: integers, uuids, and whatever else has a fixed text.
//!
//! A range of source ids becomes a condition on the key itself where an index on the column can serve it: integers and
//! uuids have an order of their own that fits that of their texts. Other keys are compared as the texts that the service
//! has, which an index on the two expressions of [`order`] serves.

use std::ops::RangeInclusive;

use claims_model::limits::ID_CHARS;
use claims_model::source_key;
use claims_model::source_range::SourceRange;
use pgrx::pg_sys::{self, Oid};
use uuid::Uuid;

use super::leases::pg_uuid;
use crate::pg::spi::Value;

/// The type of the column `$attribute` (a row of pg_attribute) under all its domains.
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

/// What kind of keys a column has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Integer,
    Uuid,
    /// Anything else: its text counts.
    Text,
}

impl Kind {
    /// By the column's type under its domains.
    pub fn of(base_type: Option<Oid>) -> Kind {
        match base_type {
            Some(pg_sys::INT2OID | pg_sys::INT4OID | pg_sys::INT8OID) => Kind::Integer,
            Some(pg_sys::UUIDOID) => Kind::Uuid,
            _ => Kind::Text,
        }
    }

    /// The stretches of keys whose ids lie in a range; the first one is in the order of the ids.
    pub fn stretches(self, range: &SourceRange) -> Vec<Stretch> {
        match self {
            Kind::Integer => {
                let integers = range.integers();
                vec![Stretch::Integers(integers.natural), Stretch::Integers(integers.negative)]
            }
            Kind::Uuid => vec![Stretch::Uuids(range.uuids())],
            Kind::Text => vec![Stretch::Texts(range.clone())],
        }
    }

    /// The order of keys, such that an index serves both it and the conditions.
    pub fn order(self, key: &str, descending: bool) -> String {
        match self {
            Kind::Integer | Kind::Uuid => format!("{key} {}", if descending { "DESC" } else { "ASC" }),
            Kind::Text => order(key),
        }
    }

    /// A condition for the keys that have these texts, exactly these: collations and types that take different texts for
    /// equal have no say. `None`: there can be no such keys.
    pub fn among(self, key: &str, ids: &[&str]) -> Option<(String, Vec<Value>)> {
        let ids = ids.iter().copied();
        let is_among = || format!("{key} = ANY ($1)");
        match self {
            Kind::Integer => {
                let keys: Vec<i64> = ids.filter_map(source_key::integer).collect();
                (!keys.is_empty()).then(|| (is_among(), vec![keys.into()]))
            }
            Kind::Uuid => {
                let keys: Vec<_> = ids.filter_map(source_key::uuid).map(|key| pg_uuid(Uuid::from_u128(key))).collect();
                (!keys.is_empty()).then(|| (is_among(), vec![keys.into()]))
            }
            Kind::Text => {
                let ids: Vec<&str> = ids.collect();
                let mut lengths: Vec<i32> =
                    ids.iter().filter_map(|id| i32::try_from(id.chars().count()).ok()).collect();
                lengths.sort_unstable();
                lengths.dedup();
                // By the column's own index, where it is one of texts, or by the one that serves ranges.
                let condition = format!(
                    "{key}::pg_catalog.text = ANY ($1) AND {} = ANY ($1) AND {} = ANY ($2)",
                    bytes(key),
                    length(key)
                );
                (!ids.is_empty()).then(|| (condition, vec![ids.into(), lengths.into()]))
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

/// The service's order of source ids, in the words of docs/verification.md's index.
fn order(key: &str) -> String {
    format!("{}, {}", length(key), bytes(key))
}

/// Keys of one table that lie together in an index.
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

    /// Integers below zero: their ids go the other way.
    pub fn descends(&self) -> bool {
        matches!(self, Stretch::Integers(keys) if *keys.start() < 0)
    }

    /// A condition for the keys, and the values of its parameters.
    pub fn condition(&self, key: &str) -> (String, Vec<Value>) {
        let between = || format!("{key} BETWEEN $1 AND $2");
        match self {
            Stretch::Integers(keys) => (between(), vec![(*keys.start()).into(), (*keys.end()).into()]),
            Stretch::Uuids(keys) => {
                let bounds = [keys.start(), keys.end()];
                (between(), bounds.map(|bound| pg_uuid(Uuid::from_u128(*bound)).into()).into())
            }
            Stretch::Texts(SourceRange { above, up_to }) => {
                let mut condition = format!("{key} IS NOT NULL");
                let mut values: Vec<Value> = Vec::new();
                for (bound, operator) in [(above, ">"), (up_to, "<=")] {
                    let Some(bound) = bound else { continue };
                    values.push(bound.as_str().into());
                    let number = values.len();
                    condition += &format!(" AND ({}) {operator} (pg_catalog.length(${number}), ${number})", order(key));
                }
                (condition, values)
            }
            Stretch::Nulls => (format!("{key} IS NULL"), Vec::new()),
        }
    }

    /// As [`Stretch::condition`], without the keys that can be no ids: only an id can be a bound for the service.
    pub fn condition_on_ids(&self, key: &str) -> (String, Vec<Value>) {
        match self {
            Stretch::Texts(SourceRange { above, up_to }) => {
                let above = Some(above.clone().unwrap_or_default());
                let (condition, values) = Stretch::Texts(SourceRange { above, up_to: up_to.clone() }).condition(key);
                (format!("{condition} AND {} <= {ID_CHARS}", length(key)), values)
            }
            other => other.condition(key),
        }
    }
}
