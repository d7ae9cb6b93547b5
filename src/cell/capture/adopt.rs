//! Finds claims of this cell that no row of it needs: claims of rows that were written past the triggers, and those of a customer
//! who was transferred to this cell. A row that has the name now may adopt the claim.
//!
//! Two sessions may find the same name free, because neither sees the other's row. The service gives the lease to one of them.
//! The other one can get it only after the first lease is settled. By then the first row is committed, if it was saved. So a
//! session that adopts a claim checks once more after it got the lease.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use claims_model::capture::{Create, Id, NamedBucket};
use claims_model::source_key::is_id;

use super::slow_search;
use crate::cell::claimed::expected::{self, ClaimedRow};
use pg::spi::Connection;

/// Returns the buckets of creates that no other row of the cell's tables needs: neither committed rows nor those of this
/// transaction. Takes no locks.
pub fn free(connection: &Connection, creates: &[&Create]) -> BTreeSet<NamedBucket> {
    let mut by_type: BTreeMap<&str, BTreeMap<&str, Callers>> = BTreeMap::new();
    for create in creates {
        let rows = Callers { create, own: 0, others: 0 };
        by_type.entry(&create.bucket.bucket_type).or_default().insert(&create.bucket.value, rows);
    }
    for (bucket_type, rows) in &mut by_type {
        let values: Vec<&str> = rows.keys().copied().collect();
        for attribute in expected::of_bucket(connection, bucket_type) {
            let started = Instant::now();
            let found = attribute.with_values_now(connection, &values);
            slow_search::note(connection, &attribute, started.elapsed());
            for calling in found {
                let name = attribute.canonical(&calling.value);
                if let Some(rows) = name.and_then(|name| rows.get_mut(name.as_str())) {
                    rows.add(&attribute.source_type, &calling);
                }
            }
        }
    }
    let free = by_type.into_values().flat_map(BTreeMap::into_values).filter(|rows| rows.others == 0 && rows.own <= 1);
    free.map(|rows| rows.create.bucket.clone()).collect()
}

/// The rows that need the bucket of a create.
struct Callers<'c> {
    create: &'c Create,
    /// Number of columns of the row that the create comes from.
    own: usize,
    others: usize,
}

impl Callers<'_> {
    fn add(&mut self, source_type: &str, calling: &ClaimedRow) {
        let (Some(source), Some(_)) = (id(&calling.source_id), id(&calling.subject_id)) else { return };
        let ends = &self.create.ends;
        let is_own = *ends.source_type == *source_type
            && match &ends.source_id {
                Some(Id::Number(number)) => number.to_string() == source,
                Some(Id::Text(text)) => text == source,
                None => false,
            };
        *(if is_own { &mut self.own } else { &mut self.others }) += 1;
    }
}

/// Returns an id if it is one. A row without subject or source needs no claim.
fn id(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| is_id(text))
}
