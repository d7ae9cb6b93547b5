//! Statements on the tables of the service.

/// Puts in a lease.
macro_rules! insert_lease {
    () => {
        "INSERT INTO claims.claim_leases (uuid, creator_id, created_at, updated_at, payload, request_digest, cell_xid)
         VALUES ($1, $2, $3, $3, $4, $5, $6)"
    };
}

/// Into these columns of a table new claims are put.
macro_rules! insert_into {
    ($table:literal) => {
        insert_into!($table, "")
    };
    ($table:literal, $more:literal) => {
        concat!(
            "INSERT INTO claims.",
            $table,
            " (uuid, bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, lease_uuid, status,
              created_at, updated_at",
            $more,
            ") "
        )
    };
}

/// New claims, under the lease $1 of cell $2 at time $3: what the arrays say, element by element, in their order. In the list of columns
/// they cost a third of what they cost in FROM, where each of them would be written into a table of its own first.
macro_rules! insert_claims {
    ($uuid:literal, $a:literal, $b:literal, $c:literal, $d:literal, $e:literal, $f:literal, $more:literal, $from:literal) => {
        concat!(
            "SELECT unnest(",
            $uuid,
            "), unnest(",
            $a,
            "), unnest(",
            $b,
            "), unnest(",
            $c,
            "), unnest(",
            $d,
            "), unnest(",
            $e,
            "), unnest(",
            $f,
            "), $2, $1, 2::smallint, $3, $3",
            $more,
            $from
        )
    };
}

/// A claim `c` of one of the types $2 with one of the values $3 that one of the leases $1 holds with status $4. That a type is paired with
/// the value of another one does no harm: the lease must hold the claim.
macro_rules! is_held {
    () => {
        "c.bucket_value = ANY ($3) AND c.bucket_type = ANY ($2) AND c.lease_uuid = ANY ($1) AND c.status = $4"
    };
}

/// Makes held claims of a table ACTIVE at $5.
macro_rules! activate_held {
    ($table:literal) => {
        concat!("UPDATE claims.", $table, " c SET status = 1, lease_uuid = NULL, updated_at = $5 WHERE ", is_held!())
    };
}

/// Deletes held claims of a table.
macro_rules! remove_held {
    ($table:literal) => {
        concat!("DELETE FROM claims.", $table, " c WHERE ", is_held!())
    };
}

/// A claim `c` is at the cell as whose it is stored: none of the transfers of an argument has taken it.
macro_rules! not_taken {
    ($transfers:literal) => {
        concat!("(c.status <> 4 OR (c.lease_uuid <> ALL (", $transfers, ")) IS NOT FALSE)")
    };
}

/// A claim `c` is one of those that the transfers of an argument have brought.
macro_rules! brought_by {
    ($transfers:literal) => {
        concat!("c.status = 4 AND c.lease_uuid = ANY (", $transfers, ")")
    };
}

pub mod admin;
mod buckets;
pub mod changes;
mod claim_rows;
pub mod claims;
pub mod distributed;
pub mod distribution;
pub mod epochs;
pub mod grants;
pub mod lease_details;
mod lease_rows;
pub mod leases;
pub mod limits;
pub mod looks;
pub mod modes;
mod name_rows;
pub mod profiles;
pub mod records;
pub mod reservations;
pub mod shards;
mod transfer_rows;
pub mod transfers;
pub mod two_phase;
pub mod verify;
mod verify_rows;

use crate::error::{ClaimsError, or_raise};
use crate::pg::index::Unusable;

/// The answer of a look at an index. Without the index there is none, whatever the tables hold: an error.
fn known_or_raised<T>(answer: Result<T, Unusable>, index: &'static str) -> T {
    or_raise(answer.map_err(|_| ClaimsError::NoUniqueIndex { index }))
}
