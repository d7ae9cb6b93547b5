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
use pg::spi::{Connection, Value, View};
use pg::statement::{shard_statement, shared_statement};
use pg::uuid::{from_pg_uuid, pg_uuid, pg_uuids};
use pg::{in_flight, lock};

/// A page of leases: at most the requested number, with at most the given bytes of payload, and at least one. Payloads are not
/// detoasted before the page is known. The leases are read in the order of the index.
macro_rules! lease_page {
    ($condition:literal, $limit:literal, $bytes:literal) => {
        concat!(
            "SELECT uuid, creator_id, created_at, updated_at, payload::text, cell_xid
               FROM (SELECT l.*, row_number() OVER so_far AS nth, sum(pg_column_size(l.payload)) OVER so_far AS bytes
                       FROM (SELECT * FROM claims.claim_leases WHERE ", $condition, "
                              ORDER BY created_at FETCH FIRST (", $limit, ") ROWS WITH TIES) l
                     WINDOW so_far AS (ORDER BY l.created_at, l.uuid ROWS UNBOUNDED PRECEDING)) page
              WHERE nth <= ", $limit, " AND (nth = 1 OR bytes <= ", $bytes, ") ORDER BY created_at, uuid"
        )
    };
}

shared_statement! {
    /// Returns the state of leases: outstanding, or the outcome.
    STATE(UUIDARRAYOID) =
        "SELECT uuid, creator_id, NULL::text, request_digest FROM claims.claim_leases WHERE uuid = ANY ($1)
         UNION ALL
         SELECT lease_uuid, creator_id, outcome, request_digest FROM claims.lease_outcomes WHERE lease_uuid = ANY ($1)";
    /// Returns a page of a cell's leases, oldest first, up to $5 of them and $6 bytes of payload.
    LEASE_PAGE(INT8OID, TIMESTAMPTZOID, UUIDOID, TIMESTAMPTZOID, INT8OID, INT8OID) = lease_page!(
        "creator_id = $1 AND created_at >= $2 AND (created_at, uuid) > ($2, $3) AND created_at >= $4", "$5", "$6");
    /// Returns a page of all cells' leases, oldest first, up to $4 of them and $5 bytes of payload.
    LEASE_PAGE_OF_ALL(TIMESTAMPTZOID, UUIDOID, TIMESTAMPTZOID, INT8OID, INT8OID) = lease_page!(
        "(created_at, uuid) > ($1, $2) AND created_at >= $3", "$4", "$5");
}

shard_statement! {
    /// Inserts the key of a lease that never began, to fence it. A fence passes through both unique keys, that of the outstanding
    /// lease and that of the outcome. So it conflicts with every begin of the same uuid, whether that is open, committed, or yet
    /// to come.
    PASS_KEY(UUIDOID, INT8OID) =
        "INSERT INTO claims.claim_leases (uuid, creator_id, payload) VALUES ($1, $2, '{}') ON CONFLICT DO NOTHING";
}

/// Returns the states of leases, as of `view`.
pub fn existing(connection: &Connection, leases: &[Uuid], view: View) -> Vec<ExistingLease> {
    // Where the tables are distributed, all shards would be asked for none.
    if leases.is_empty() {
        return Vec::new();
    }
    connection.run(&STATE, view, [pg_uuids(leases.iter().copied())]).map(|row| ExistingLease {
        uuid: from_pg_uuid(row.must(1)),
        cell_id: row.must(2),
        outcome: row.get::<String>(3).map(|name| if name == "committed" { Ending::Commit } else { Ending::Rollback }),
        digest: row.get(4),
    })
}

/// Raises an error at once if the call may not wait and somebody has locked one of the tables as a whole. The lock timeouts for
/// relation extension would be spent in vain.
pub fn refuse_locked_tables(deadline: Instant) -> Result<(), ClaimsError> {
    const WRITTEN: [&CStr; 3] = [c"claim_leases", c"claims", c"lease_outcomes"];
    if deadline > Instant::now() || lock::for_writing(&WRITTEN) { Ok(()) } else { Err(TablesError::Locked.into()) }
}

/// Inserts the key of a lease, as a row that must not stay. Returns `false` if the lease is outstanding.
pub fn pass_key(connection: &Connection, lease: Uuid, cell_id: i64) -> bool {
    connection.run(&PASS_KEY, View::Statement, [pg_uuid(lease).into(), cell_id.into()]).count() == 1
}

/// Returns whether another open transaction is beginning, fencing or settling a lease, from its row in a table: `claim_leases` or
/// one of its shards.
pub fn is_in_flight_in(table: &CStr, lease: Uuid) -> bool {
    let key = [KeyPart { column: c"uuid", value: KeyValue::Uuid(pg_uuid(lease)) }];
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
    let position = || -> [Value; 5] {
        let bytes = PAGE_BYTES as i64;
        [
            Moment(after.created_at).into(),
            pg_uuid(after.lease_uuid).into(),
            created_after.into(),
            limit.into(),
            bytes.into(),
        ]
    };
    let rows = match cell_id {
        Some(cell_id) => connection.run(&LEASE_PAGE, View::Caller, [cell_id.into()].into_iter().chain(position())),
        None => connection.run(&LEASE_PAGE_OF_ALL, View::Caller, position()),
    };
    rows.map(|row| ListedLease {
        uuid: row.must(1),
        cell_id: row.must(2),
        created_at: row.must(3),
        updated_at: row.must(4),
        payload: row.must(5),
        cell_xid: row.get(6),
    })
}
