//! Columns, arrays, and types of rows that both implementations use.

pub mod audit;
pub mod buckets;
pub mod cells;
pub mod claims;
pub mod feed;
pub mod leases;
pub mod names;
pub mod skeletons;
pub mod transfers;
pub mod verify;

use crate::error::{TablesError, or_raise};
use pg::index::Unusable;

/// Returns the answer of an index probe. Without a usable index there is no answer: that is an error.
pub fn known_or_raised<T>(answer: Result<T, Unusable>, index: &'static str) -> T {
    or_raise(answer.map_err(|_| TablesError::NoUniqueIndex { index }.into()))
}
