//! SeenRows of the cell's tables, looked at one by one: what they call for right now.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use claims_model::source_key;

use super::expected::{Called, called};
use crate::cell::client::records::Report;
use crate::pg::spi::Connection;
use crate::store::cell::expected::{self, Attribute, Hold};

/// The result of the second check.
#[derive(Default)]
pub struct SeenRows {
    /// SeenRows that call for a bucket, found by the bucket.
    callers: HashMap<(String, String), Called>,
    /// The claims of rows that were looked up by their key, by source id.
    seen: HashMap<String, Vec<Called>>,
    /// The claims of rows that claims name as their sources, by source id.
    sources: HashMap<String, Vec<Called>>,
}

impl SeenRows {
    /// Looks for rows that call for buckets, whatever source type they have.
    pub fn find_callers(&mut self, connection: &Connection, buckets: impl Iterator<Item = (String, String)>) {
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        buckets.for_each(|(bucket_type, value)| values.entry(bucket_type).or_default().push(value));
        for (bucket_type, values) in values {
            let values: Vec<_> = values.iter().map(String::as_str).collect();
            for attribute in expected::of_bucket(connection, &bucket_type).into_iter().map(Rc::new) {
                let rows = attribute.with_values(connection, &values);
                for called in rows.into_iter().filter_map(|row| called(&attribute, row)) {
                    self.callers.insert((bucket_type.clone(), called.value.clone()), called);
                }
            }
        }
    }

    pub fn callers(&self) -> Vec<Called> {
        self.callers.values().cloned().collect()
    }

    /// The row that calls for a bucket.
    pub fn caller(&self, bucket_type: &str, value: &str) -> Option<Called> {
        self.callers.get(&(bucket_type.to_owned(), value.to_owned())).cloned()
    }

    /// Looks rows up by their keys again, column by column, in the order of the keys.
    pub fn look(&mut self, connection: &Connection, wanted: impl Iterator<Item = Called>, hold: Hold) {
        let mut columns: Vec<(Rc<Attribute>, Vec<String>)> = Vec::new();
        for called in wanted {
            match columns.iter_mut().find(|(attribute, _)| **attribute == **called.attribute()) {
                Some((_, ids)) => ids.push(called.source_id),
                None => columns.push((called.attribute().clone(), vec![called.source_id])),
            }
        }
        for (attribute, ids) in columns {
            let mut ids: Vec<_> = ids.iter().map(String::as_str).collect();
            source_key::sort(&mut ids);
            let rows = attribute.with_ids(connection, &ids, hold);
            keep(&mut self.seen, rows.into_iter().filter_map(|row| called(&attribute, row)));
        }
    }

    /// Looks up the rows that claims name as their sources: pairs of source type and id.
    pub fn look_at_sources(&mut self, connection: &Connection, sources: HashSet<(String, String)>) {
        let mut by_type: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (source_type, id) in &sources {
            by_type.entry(source_type).or_default().push(id);
        }
        for (source_type, ids) in by_type {
            for attribute in expected::of_source(connection, source_type).into_iter().map(Rc::new) {
                let rows = attribute.with_ids(connection, &ids, Hold::No);
                keep(&mut self.sources, rows.into_iter().filter_map(|row| called(&attribute, row)));
            }
        }
    }

    /// Whether the row existed in the second check, and called for the same claim.
    pub fn is_seen(&self, called: &Called) -> bool {
        self.seen.get(&called.source_id).is_some_and(|seen| seen.iter().any(|seen| seen.is_as(called)))
    }

    /// Whether the row exists and calls for the same claim, although it could not be locked.
    pub fn is_there(&self, connection: &Connection, called: &Called) -> bool {
        let attribute = called.attribute();
        let rows = attribute.with_ids(connection, &[&called.source_id], Hold::No);
        rows.into_iter().filter_map(|row| super::expected::called(attribute, row)).any(|there| there.is_as(called))
    }

    /// Whether the row that the claim names as its source is another one that calls for the same bucket.
    pub fn has_rival(&self, report: &Report, called: &Called) -> bool {
        let Some((source_type, source_id)) = &report.source else { return false };
        let is_another = (source_type, source_id) != (&called.attribute().source_type, &called.source_id);
        let calls = |there: &Called| {
            there.attribute().source_type == *source_type
                && there.bucket_type() == report.bucket_type
                && there.value == report.bucket_value
        };
        is_another && self.sources.get(source_id).is_some_and(|rows| rows.iter().any(calls))
    }
}

fn keep(rows: &mut HashMap<String, Vec<Called>>, more: impl Iterator<Item = Called>) {
    more.for_each(|called| rows.entry(called.source_id.clone()).or_default().push(called));
}
