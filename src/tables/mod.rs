//! The tables of the service, behind the trait [`Tables`]. All rules of the service use them through it.
//!
//! [`local`] is for tables in this database, [`citus`] for tables that are distributed over the nodes of a Citus cluster. Both
//! use [`rows`] (columns and types of rows) and [`shared`] (statements that work in both cases). A call decides once, at its
//! beginning, which of the two it uses ([`connect`], [`at_entry`]).

/// The cell of a claim `c` that every read returns: the cell in the transfer's row if a transfer holds the claim. Both rows are
/// read in one snapshot, and the transfer's row only for such claims.
macro_rules! claim_cell {
    () => {
        "CASE WHEN c.status = 4
              THEN coalesce((SELECT t.cell_id FROM claims.cell_transfers t WHERE t.transfer_uuid = c.lease_uuid), c.creator_id)
              ELSE c.creator_id END"
    };
}

/// The other one of the two cells of the transfer that holds a claim.
macro_rules! other_cell {
    () => {
        "CASE WHEN c.status = 4
              THEN (SELECT CASE t.cell_id WHEN t.from_cell THEN t.to_cell ELSE t.from_cell END
                      FROM claims.cell_transfers t WHERE t.transfer_uuid = c.lease_uuid) END"
    };
}

/// Whether a claim `c` stored under cell $1 is at that cell: no transfer has moved it to another one. The subquery for these
/// transfers runs once, not for each claim.
macro_rules! at_home {
    () => {
        "(c.status <> 4
          OR (c.lease_uuid <> ALL (ARRAY(SELECT t.transfer_uuid FROM claims.cell_transfers t
                                          WHERE t.from_cell = $1 AND t.cell_id <> t.from_cell AND t.ended_at IS NULL))) IS NOT FALSE)"
    };
}

/// The transfers `t` whose claims belong to cell $1 and are stored under another cell. OFFSET 0 keeps the planner from beginning
/// with the claims.
macro_rules! arrived {
    () => {
        "(SELECT t.transfer_uuid, t.from_cell FROM claims.cell_transfers t
           WHERE t.cell_id = $1 AND t.cell_id <> t.from_cell AND t.ended_at IS NULL OFFSET 0) t"
    };
}

/// Whether transfer `t` has brought a claim `c`.
macro_rules! brought {
    () => {
        "c.creator_id = t.from_cell AND c.status = 4 AND c.lease_uuid = t.transfer_uuid"
    };
}

macro_rules! insert_lease {
    () => {
        "INSERT INTO claims.claim_leases (uuid, creator_id, created_at, updated_at, payload, request_digest, cell_xid)
         VALUES ($1, $2, $3, $3, $4, $5, $6)"
    };
}

/// The beginning of an INSERT of new claims into a table, with its columns.
macro_rules! insert_into {
    ($table:literal) => {
        concat!(
            "INSERT INTO claims.",
            $table,
            " (uuid, bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, lease_uuid, status,
              created_at, updated_at, display_value) "
        )
    };
}

/// Inserts a claim under the lease $1 of cell $2 at time $3.
macro_rules! create_claim {
    () => {
        concat!(insert_into!("claims"), "VALUES ($4, $5, $6, $7, $8, $9, $10, $2, $1, 2, $3, $3, $11)")
    };
}

/// Replaces the claim on bucket $4, $5 in place, which the lease $1 is to destroy, at $2: its new uuid is $3.
macro_rules! replace_claim {
    () => {
        "UPDATE claims.claims c
            SET uuid = $3, subject_type = $6, subject_id = $7, source_type = $8, source_id = $9, status = 1, lease_uuid = NULL,
                created_at = $2, updated_at = $2, display_value = $10
          WHERE c.bucket_value = $5 AND c.bucket_type = $4 AND c.lease_uuid = $1 AND c.status = 3"
    };
}

/// Whether a claim `c` has one of the types $2 and one of the values $3, and one of the leases $1 holds it with status $4. A type
/// may be combined with the value of another type without harm, because the lease must hold the claim.
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

/// Whether a claim `c` is at the cell under which it is stored: none of the transfers in an argument has taken it.
macro_rules! not_taken {
    ($transfers:literal) => {
        concat!("(c.status <> 4 OR (c.lease_uuid <> ALL (", $transfers, ")) IS NOT FALSE)")
    };
}

/// Whether one of the transfers in an argument has brought a claim `c`.
macro_rules! brought_by {
    ($transfers:literal) => {
        concat!("c.status = 4 AND c.lease_uuid = ANY (", $transfers, ")")
    };
}

mod bounded;
pub mod citus;
mod door;
pub mod errors;
mod local;
pub mod rows;
pub mod shared;

pub use self::door::*;
use pg::compatibility;
use pg::spi::{self, Connection};

/// Connects for one call, and chooses the implementation that the call uses. Only functions that SQL calls use this.
pub fn connect<T>(call: impl FnOnce(&'static dyn Tables, &Connection) -> T) -> T {
    spi::connect(|connection| call(of_this_database(), connection))
}

/// Like [`connect`], for functions that have the rights of their caller and seldom run a statement. Statements have the rights of
/// the tables' owner.
pub fn connect_as_owner<T>(call: impl FnOnce(&'static dyn Tables, &Connection) -> T) -> T {
    spi::connect_as_owner(|connection| call(of_this_database(), connection))
}

/// Like [`connect`], for calls that connect later or not at all.
pub fn at_entry() -> &'static dyn Tables {
    compatibility::require();
    of_this_database()
}

/// Returns whether a scan of a table of this database finds its rows. Where Citus is installed they may be in shards.
pub fn have_rows_here() -> bool {
    !citus::catalog::is_installed()
}

/// Returns whether the tables of this database are those that calls expect. It raises no error, unlike the compatibility check.
pub fn are_usable() -> bool {
    citus::layout::has_own_tables()
}

/// Raises an error if calls would read the wrong tables. The part of the compatibility check that compares no versions.
pub fn require_own() {
    citus::layout::require_own_tables();
}

/// Returns whether the tables are distributed, without the compatibility check. Returns false if they are not those that calls expect.
pub fn are_distributed_unchecked() -> bool {
    citus::layout::check_tables().unwrap_or(false)
}

/// Returns the implementation for the tables of this database, as the compatibility check has found them.
pub fn of_this_database() -> &'static dyn Tables {
    if citus::layout::is_distributed() { &citus::Citus } else { &local::Local }
}
