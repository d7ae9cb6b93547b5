//! Conflicts of unique columns of one database: finds the buckets that they name, and replaces claims whose tables have given up their values.

use crate::capture::{Ends, NamedBucket};
use crate::outgoing::{Destroying, Outgoing, Refusal};

impl Outgoing {
    /// Returns the buckets of the batch that conflicts name.
    pub fn refused(&self, refusals: &[Refusal]) -> impl Iterator<Item = &NamedBucket> {
        let rows = self.rows();
        let buckets = refusals.iter().filter_map(|refusal| rows.row_of(&refusal.bucket)).map(|(bucket, _)| bucket);
        buckets.collect::<Vec<_>>().into_iter()
    }

    /// Returns the buckets of creates that their own cell has claimed already.
    pub fn taken(&self, refusals: &[Refusal], cell_id: i64) -> Vec<&NamedBucket> {
        let buckets = self.rows().creates;
        let taken = refusals.iter().filter(|refusal| refusal.is_taken_by(cell_id));
        taken.filter_map(|refusal| buckets.find(&refusal.bucket)).map(|at| &self.creates[at].create.bucket).collect()
    }

    /// Returns the buckets that another open transaction is changing.
    pub fn in_flight(&self, refusals: &[Refusal]) -> Vec<&NamedBucket> {
        let rows = self.rows();
        let in_flight = refusals.iter().filter(|refusal| refusal.reason == "in_flight");
        in_flight.filter_map(|refusal| rows.row_of(&refusal.bucket)).map(|(bucket, _)| bucket).collect()
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
