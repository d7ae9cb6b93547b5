//! Statements on the tables of the service.

pub mod admin;
mod buckets;
pub mod changes;
pub mod claims;
pub mod distributed;
pub mod distributed_changes;
pub mod distributed_looks;
pub mod distributed_nodes;
pub mod distributed_profiles;
pub mod distributed_records;
pub mod distributed_release;
pub mod distributed_transfers;
pub mod distributed_verify;
pub mod distribution;
pub mod epochs;
pub mod grants;
pub mod lease_details;
pub mod leases;
pub mod limits;
pub mod looks;
pub mod modes;
pub mod profiles;
pub mod records;
pub mod reservations;
pub mod shards;
pub mod transfers;
pub mod two_phase;
pub mod verify;

use crate::error::{ClaimsError, or_raise};
use crate::pg::index::Unusable;

/// The answer of a look at an index. Without the index there is none, whatever the tables hold: an error.
fn known_or_raised<T>(answer: Result<T, Unusable>, index: &'static str) -> T {
    or_raise(answer.map_err(|_| ClaimsError::NoUniqueIndex { index }))
}
