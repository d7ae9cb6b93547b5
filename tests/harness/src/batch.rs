//! Batches, in the form that the service takes.

use serde_json::{Value, json};

/// The records of one `begin_update`. Every bucket of the harness is of type ROUTES.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The bucket value, and the local row that it comes from.
    pub creates: Vec<(String, i64)>,
    pub destroys: Vec<String>,
}

impl Batch {
    pub fn create(creates: Vec<(String, i64)>) -> Self {
        Self { creates, destroys: Vec::new() }
    }

    pub fn destroy(destroys: Vec<String>) -> Self {
        Self { creates: Vec::new(), destroys }
    }

    pub fn is_empty(&self) -> bool {
        self.creates.is_empty() && self.destroys.is_empty()
    }

    /// Returns the `create_records` argument.
    pub fn create_records(&self) -> Value {
        let record = |(name, id): &(String, i64)| {
            json!({
                "bucket": {"type": "ROUTES", "value": name},
                "subject": {"type": "PROJECT", "id": id},
                "source": {"type": "RAILS_TABLE_ROUTES", "rails_primary_key_id": id},
            })
        };
        self.creates.iter().map(record).collect()
    }

    /// Returns the `destroy_records` argument.
    pub fn destroy_records(&self) -> Value {
        let record = |name: &String| json!({"bucket": {"type": "ROUTES", "value": name}});
        self.destroys.iter().map(record).collect()
    }

    /// Returns all bucket values, creates first. Conflicts are reported in this order.
    pub fn buckets(&self) -> impl Iterator<Item = &str> {
        self.creates.iter().map(|(name, _)| name.as_str()).chain(self.destroys.iter().map(String::as_str))
    }

    /// Removes the named buckets.
    pub fn without(mut self, gone: &[String]) -> Self {
        self.creates.retain(|(name, _)| !gone.contains(name));
        self.destroys.retain(|name| !gone.contains(name));
        self
    }
}
