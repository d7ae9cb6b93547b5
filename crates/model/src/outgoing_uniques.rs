//! Conflicts of unique columns of one database: finds the buckets that they name, and replaces claims whose tables have given up their values.

use crate::capture::{Ends, NamedBucket};
use crate::outgoing::{Destroying, Outgoing, Refusal};

impl Outgoing {
    /// Returns the buckets of the batch that conflicts name.
    pub fn refused<'r>(&self, refusals: impl IntoIterator<Item = &'r Refusal>) -> Vec<&NamedBucket> {
        let rows = self.rows();
        let row_of = |refusal: &Refusal| rows.row_of(&refusal.bucket);
        refusals.into_iter().filter_map(row_of).map(|(bucket, _)| bucket).collect()
    }

    /// Returns the buckets of creates that their own cell has claimed already.
    pub fn taken(&self, refusals: &[Refusal], cell_id: i64) -> Vec<&NamedBucket> {
        self.taken_creates(refusals, cell_id).into_iter().map(|creating| &creating.create.bucket).collect()
    }

    /// Returns the buckets that another open transaction is changing.
    pub fn in_flight(&self, refusals: &[Refusal]) -> Vec<&NamedBucket> {
        self.refused(refusals.iter().filter(|refusal| refusal.reason == "in_flight"))
    }

    /// Replaces existing claims by creates. Each is named with its source, and is replaced only if it still has that. Returns whether the
    /// batch has changed.
    pub fn replace(&mut self, existing: Vec<(NamedBucket, Ends)>) -> bool {
        let before = self.destroys.len();
        for (bucket, ends) in existing {
            if self.position_of_create(&bucket).is_some()
                && let Err(at) = self.destroys.binary_search_by(|destroy| destroy.bucket.cmp(&bucket))
            {
                self.destroys.insert(at, Destroying { bucket, ends: vec![ends] });
            }
        }
        self.destroys.len() > before
    }
}
