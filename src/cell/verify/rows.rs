//! Rows of the cell's tables that a comparison reads again one by one, with the claims that they need now.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use claims_model::source_key;

use super::expected::{ExpectedClaim, enforced_or_off_claim, expected_claim};
use crate::cell::claimed::expected::{self, Attribute, ShareLock};
use crate::cell::client::records::Report;
use pg::spi::Connection;

/// The rows of the second check.
#[derive(Default)]
pub struct SeenRows {
    /// Rows that need a bucket, by bucket.
    claiming_rows: HashMap<(String, String), ExpectedClaim>,
    /// The claims that rows need which were read by their keys, by source id.
    seen: HashMap<String, Vec<ExpectedClaim>>,
    /// The claims that the rows need which claims name as their sources, by source id, also where declarations are off.
    sources: HashMap<String, Vec<ExpectedClaim>>,
}

impl SeenRows {
    /// Reads the rows that need buckets, of any source type.
    pub fn read_claiming_rows(&mut self, connection: &Connection, buckets: impl Iterator<Item = (String, String)>) {
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        buckets.for_each(|(bucket_type, value)| values.entry(bucket_type).or_default().push(value));
        for (bucket_type, values) in values {
            let values: Vec<_> = values.iter().map(String::as_str).collect();
            let attributes = expected::of_bucket(connection, &bucket_type).into_iter().map(Rc::new);
            for attribute in attributes.filter(|attribute| !attribute.is_dormant()) {
                let rows = attribute.with_values(connection, &values);
                for expected_claim in rows.into_iter().filter_map(|row| expected_claim(&attribute, row)) {
                    self.claiming_rows.insert((bucket_type.clone(), expected_claim.value.clone()), expected_claim);
                }
            }
        }
    }

    pub fn claiming_rows(&self) -> Vec<ExpectedClaim> {
        self.claiming_rows.values().cloned().collect()
    }

    pub fn claiming_row(&self, bucket_type: &str, value: &str) -> Option<ExpectedClaim> {
        self.claiming_rows.get(&(bucket_type.to_owned(), value.to_owned())).cloned()
    }

    /// Reads rows again by their keys, column by column, in the order of the keys.
    pub fn read_again(
        &mut self,
        connection: &Connection,
        wanted: impl Iterator<Item = ExpectedClaim>,
        row_lock: ShareLock,
    ) {
        let mut columns: Vec<(Rc<Attribute>, Vec<String>)> = Vec::new();
        for expected_claim in wanted {
            match columns.iter_mut().find(|(attribute, _)| **attribute == **expected_claim.attribute()) {
                Some((_, ids)) => ids.push(expected_claim.source_id),
                None => columns.push((expected_claim.attribute().clone(), vec![expected_claim.source_id])),
            }
        }
        for (attribute, ids) in columns {
            let mut ids: Vec<_> = ids.iter().map(String::as_str).collect();
            source_key::sort(&mut ids);
            let rows = attribute.with_ids(connection, &ids, row_lock);
            add_all(&mut self.seen, rows.into_iter().filter_map(|row| expected_claim(&attribute, row)));
        }
    }

    /// Reads the rows that claims name as their sources, given as source type and id.
    pub fn read_sources(&mut self, connection: &Connection, sources: HashSet<(String, String)>) {
        let mut by_type: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (source_type, id) in &sources {
            by_type.entry(source_type).or_default().push(id);
        }
        for (source_type, ids) in by_type {
            let attributes = expected::of_source(connection, source_type).into_iter().map(Rc::new);
            for attribute in attributes.filter(|attribute| attribute.is_accepted) {
                let rows = attribute.with_ids(connection, &ids, ShareLock::None);
                add_all(&mut self.sources, rows.into_iter().filter_map(|row| enforced_or_off_claim(&attribute, row)));
            }
        }
    }

    /// Returns whether the second check has read the row, and the row needs the same claim.
    pub fn is_seen(&self, expected_claim: &ExpectedClaim) -> bool {
        self.seen.get(&expected_claim.source_id).is_some_and(|seen| seen.iter().any(|seen| seen.is_as(expected_claim)))
    }

    /// Returns whether the row exists and needs the same claim, although it could not be locked.
    pub fn is_there(&self, connection: &Connection, expected_claim: &ExpectedClaim) -> bool {
        let attribute = expected_claim.attribute();
        let rows = attribute.with_ids(connection, &[&expected_claim.source_id], ShareLock::None);
        rows.into_iter()
            .filter_map(|row| super::expected::expected_claim(attribute, row))
            .any(|other| other.is_as(expected_claim))
    }

    /// Returns whether the source of the claim is another row that needs the same bucket.
    pub fn has_rival(&self, report: &Report, expected_claim: &ExpectedClaim) -> bool {
        let Some((source_type, source_id)) = &report.source else { return false };
        let is_another =
            (source_type, source_id) != (&expected_claim.attribute().source_type, &expected_claim.source_id);
        let calls = |other: &ExpectedClaim| {
            other.attribute().source_type == *source_type
                && other.bucket_type() == report.bucket_type
                && other.value == report.bucket_value
        };
        is_another && self.sources.get(source_id).is_some_and(|rows| rows.iter().any(calls))
    }

    /// Returns whether a declaration that is not off needs a claim of this type for the source of the claim.
    pub fn is_source_enforced(&self, report: &Report) -> bool {
        let Some((source_type, source_id)) = &report.source else { return false };
        let is_of = |claim: &ExpectedClaim| {
            claim.attribute().source_type == *source_type
                && claim.bucket_type() == report.bucket_type
                && !claim.is_off()
        };
        self.sources.get(source_id).is_some_and(|rows| rows.iter().any(is_of))
    }
}

fn add_all(rows: &mut HashMap<String, Vec<ExpectedClaim>>, more: impl Iterator<Item = ExpectedClaim>) {
    more.for_each(|expected_claim| rows.entry(expected_claim.source_id.clone()).or_default().push(expected_claim));
}
