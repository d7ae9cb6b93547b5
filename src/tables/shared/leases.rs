//! Statements on leases that work for local and distributed tables.

use std::ffi::CStr;
use std::time::Instant;

use claims_model::cursor::LeaseCursor;
use claims_model::limits::PAGE_BYTES;
use uuid::Uuid;

use crate::error::{ClaimsError, TablesError};
use crate::tables::rows::known_or_raised;
use crate::tables::rows::leases::{Ending, ExistingLease, ListedLease};
use pg::clock::Moment;
use pg::index::{KeyPart, KeyValue};
use pg::query::{query, record};
use pg::spi::{Connection, View};
use pg::{in_flight, lock};

/// A page of leases: at most the requested number, with at most the given bytes of payload, and at least one. Payloads are not
/// detoasted before the page is known. The leases are read in the order of the index.
macro_rules! lease_page {
    ($condition:literal) => {
        concat!(
            "SELECT uuid, creator_id, created_at, updated_at, payload::text, cell_xid
               FROM (SELECT l.*, row_number() OVER so_far AS nth, sum(pg_column_size(l.payload)) OVER so_far AS bytes
                       FROM (SELECT * FROM claims.claim_leases WHERE ",
            $condition,
            "                 ORDER BY created_at FETCH FIRST (:most) ROWS WITH TIES) l
                     WINDOW so_far AS (ORDER BY l.created_at, l.uuid ROWS UNBOUNDED PRECEDING)) page
              WHERE nth <= :most AND (nth = 1 OR bytes <= :bytes) ORDER BY created_at, uuid"
        )
    };
}

record! {
    /// The state of a lease: outstanding, or the outcome.
    struct StateRow { uuid: Uuid, creator_id: i64, outcome: Option<String>, request_digest: Option<Vec<u8>> }
}

query! {
    fn states(leases: &[Uuid]; view) -> Vec<StateRow> = [view Anywhere]
        "SELECT uuid, creator_id, NULL::text AS outcome, request_digest FROM claims.claim_leases WHERE uuid = ANY (:leases)
         UNION ALL
         SELECT lease_uuid, creator_id, outcome, request_digest FROM claims.lease_outcomes WHERE lease_uuid = ANY (:leases)";
    /// Returns a page of a cell's leases after the one that was created at `at`, oldest first.
    fn page_of_cell(cell_id: i64, at: Moment, after: Uuid, created_after: Moment, most: i64, bytes: i64) -> Vec<ListedLease> = [Caller Anywhere]
        lease_page!("creator_id = :cell_id AND created_at >= :at AND (created_at, uuid) > (:at, :after) AND created_at >= :created_after");
    /// Like [`page_of_cell`], of all cells.
    fn page_of_all(at: Moment, after: Uuid, created_after: Moment, most: i64, bytes: i64) -> Vec<ListedLease> = [Caller Anywhere]
        lease_page!("(created_at, uuid) > (:at, :after) AND created_at >= :created_after");
    /// Inserts the key of a lease that never began, to fence it, as a row that must not stay. Returns `false` if the lease is outstanding.
    /// A fence passes through both unique keys, that of the outstanding lease and that of the outcome. So it conflicts with every begin of
    /// the same uuid, whether that is open, committed, or yet to come.
    pub fn pass_key(lease: Uuid, cell_id: i64) -> bool = [Statement OneShard]
        "INSERT INTO claims.claim_leases (uuid, creator_id, payload) VALUES (:lease, :cell_id, '{}') ON CONFLICT DO NOTHING";
}

/// Returns the states of leases, as of `view`.
pub fn existing(connection: &Connection, leases: &[Uuid], view: View) -> Vec<ExistingLease> {
    // Where the tables are distributed, all shards would be asked for none.
    if leases.is_empty() {
        return Vec::new();
    }
    let outcome = |name: String| if name == "committed" { Ending::Commit } else { Ending::Rollback };
    let existing = |row: StateRow| ExistingLease {
        uuid: row.uuid,
        cell_id: row.creator_id,
        outcome: row.outcome.map(outcome),
        digest: row.request_digest,
    };
    states(connection, leases, view).into_iter().map(existing).collect()
}

/// Raises an error at once if the call may not wait and somebody has locked one of the tables as a whole. The lock timeouts for
/// relation extension would be spent in vain.
pub fn refuse_locked_tables(deadline: Instant) -> Result<(), ClaimsError> {
    const WRITTEN: [&CStr; 3] = [c"claim_leases", c"claims", c"lease_outcomes"];
    if deadline > Instant::now() || lock::for_writing(&WRITTEN) { Ok(()) } else { Err(TablesError::Locked.into()) }
}

/// Returns whether another open transaction is beginning, fencing or settling a lease, from its row in a table: `claim_leases` or
/// one of its shards.
pub fn is_in_flight_in(table: &CStr, lease: Uuid) -> bool {
    let key = [KeyPart { column: c"uuid", value: KeyValue::Uuid(lease) }];
    known_or_raised(in_flight::is_in_flight(table, &key), "claims.claim_leases (uuid)")
}

/// Returns a page of leases after a cursor that are not older than a time, of one cell or all.
pub fn page(
    connection: &Connection,
    cell_id: Option<i64>,
    after: &LeaseCursor,
    created_after: Moment,
    limit: i64,
) -> Vec<ListedLease> {
    let (at, uuid, bytes) = (Moment(after.created_at), after.lease_uuid, PAGE_BYTES as i64);
    match cell_id {
        Some(cell_id) => page_of_cell(connection, cell_id, at, uuid, created_after, limit, bytes),
        None => page_of_all(connection, at, uuid, created_after, limit, bytes),
    }
}
