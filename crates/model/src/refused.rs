//! The conflicts of a refused save, with the rows and the declarations that they concern.

use crate::Reason;
use crate::capture::{Ends, Id, NamedBucket};
use crate::origin::Origin;
use crate::outgoing::{Refusal, RefusedBucket};

/// A conflict of a save.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedName {
    pub origin: Origin,
    /// The name of the type in the cell, or at the service if no row has the bucket.
    pub bucket_type: String,
    /// The canonical form.
    pub bucket_value: String,
    /// The name in the row.
    pub given: String,
    pub source_id: Option<String>,
    pub reason: String,
    pub retryable: bool,
    pub holder_cell_id: Option<i64>,
}

impl RefusedName {
    /// Returns the rank of the reason: the weightiest has the lowest. Reasons of newer services come last.
    fn rank(&self) -> usize {
        Reason::ALL.iter().position(|reason| reason.name() == self.reason).unwrap_or(Reason::ALL.len())
    }
}

/// Returns conflicts, each with the row that `find` returns for its bucket.
pub fn refused_names<'b>(
    refusals: Vec<Refusal>,
    find: impl Fn(&RefusedBucket) -> Option<(&'b NamedBucket, Option<&'b Ends>)>,
) -> Vec<RefusedName> {
    let name = |Refusal { bucket, reason, retryable, holder_cell_id, .. }: Refusal| {
        let (own_bucket, ends) = find(&bucket).unzip();
        let ends = ends.flatten();
        let source_id = ends.and_then(|ends| ends.source_id.as_ref()).map(Id::to_text);
        RefusedName {
            origin: ends.map_or_else(Origin::default, |ends| ends.origin.clone()),
            given: ends.and_then(|ends| ends.display.clone()).unwrap_or_else(|| bucket.value.clone()),
            bucket_type: own_bucket.map_or(bucket.bucket_type, |own| own.bucket_type.to_string()),
            bucket_value: bucket.value,
            source_id,
            reason,
            retryable,
            holder_cell_id,
        }
    };
    refusals.into_iter().map(name).collect()
}

/// Returns the weightiest conflict, which decides the SQLSTATE; the first one of several that weigh the same.
pub fn weightiest(names: &[RefusedName]) -> Option<&RefusedName> {
    names.iter().min_by_key(|name| name.rank())
}
