//! Claims of the cell itself that no row of its own calls for: those of rows that went past the triggers, and those of a
//! customer who has moved here. A row that has the name now may have the claim.
//!
//! Two sessions may find the same name free, each without the other's row. The service lets one of them have the lease. The
//! other one can have it no sooner than that is settled, and so the first one's row, if it was saved, is committed by then:
//! whoever adopts looks once more when the lease is there.

use std::collections::{BTreeMap, BTreeSet};

use claims_model::capture::{Create, Id, NamedBucket};
use claims_model::source_key::is_id;

use crate::pg::spi::Connection;
use crate::store::cell::expected::{self, Calling};

/// The buckets of creates that nothing else in the cell's tables calls for: what is committed right now, and what this
/// transaction did. Locks nothing.
pub fn free(connection: &Connection, creates: &[&Create]) -> BTreeSet<NamedBucket> {
    let mut by_type: BTreeMap<&str, BTreeMap<&str, Callers>> = BTreeMap::new();
    for create in creates {
        let rows = Callers { create, own: 0, others: 0 };
        by_type.entry(&create.bucket.bucket_type).or_default().insert(&create.bucket.value, rows);
    }
    for (bucket_type, rows) in &mut by_type {
        let values: Vec<&str> = rows.keys().copied().collect();
        for attribute in expected::of_bucket(connection, bucket_type) {
            for calling in attribute.with_values_now(connection, &values) {
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

/// What calls for the bucket of a create.
struct Callers<'c> {
    create: &'c Create,
    /// Columns of the row that it comes from.
    own: usize,
    others: usize,
}

impl Callers<'_> {
    fn add(&mut self, source_type: &str, calling: &Calling) {
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

/// A row without a subject or a source calls for no claim.
fn id(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| is_id(text))
}
