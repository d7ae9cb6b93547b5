//! The conflicts of a refused batch, and the buckets of the batch that they name.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::captured::NamedBucket;

/// A conflict, as the service's DETAIL has it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Refusal {
    pub bucket: RefusedBucket,
    pub reason: String,
    #[serde(default)]
    pub retryable: bool,
    pub holder_cell_id: Option<i64>,
    pub lease_age_seconds: Option<f64>,
}

/// The bucket of a conflict, with the type name of the service.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct RefusedBucket {
    #[serde(rename = "type")]
    pub bucket_type: String,
    pub value: String,
}

/// Parses the conflicts of a refused batch. Returns `None` if the text is something else.
pub fn refusals(detail: &str) -> Option<Vec<Refusal>> {
    serde_json::from_str(detail).ok()
}

impl Refusal {
    pub(crate) fn is_taken_by(&self, cell_id: i64) -> bool {
        self.reason == "taken" && self.holder_cell_id == Some(cell_id)
    }
}

/// A list of buckets, by their values.
pub(crate) struct Buckets<'b> {
    by_value: HashMap<&'b str, Vec<(usize, &'b NamedBucket)>>,
}

impl<'b> Buckets<'b> {
    pub(crate) fn new(buckets: impl Iterator<Item = &'b NamedBucket>) -> Self {
        let mut by_value: HashMap<&str, Vec<_>> = HashMap::new();
        for (at, bucket) in buckets.enumerate() {
            by_value.entry(&bucket.value).or_default().push((at, bucket));
        }
        Buckets { by_value }
    }

    /// Returns the position of the bucket of a conflict. The service may have another name for its type than the cell. Then the value
    /// identifies the bucket, if only one has this value.
    pub(crate) fn find(&self, refused: &RefusedBucket) -> Option<usize> {
        match self.by_value.get(refused.value.as_str())?.as_slice() {
            [(at, _)] => Some(*at),
            several => {
                several.iter().find(|(_, bucket)| *bucket.bucket_type == *refused.bucket_type).map(|(at, _)| *at)
            }
        }
    }
}
