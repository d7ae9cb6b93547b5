//! Statements on leases and their outcomes.

use std::ffi::CStr;
use std::time::Instant;

use uuid::Uuid;

use super::distributed::leases as distributed;
use super::known_or_raised;
pub use super::lease_rows::{EndedRow, Ending, NewLease, pass_key};
use crate::distribution;
use crate::error::ClaimsError;
use crate::pg::clock::Moment;
use crate::pg::in_flight;
use crate::pg::index::{self, KeyPart, KeyValue};
use crate::pg::lock;
use crate::pg::spi::{Connection, View};
use crate::pg::statement::{shared_statement, statement};
use crate::pg::uuid::{from_pg_uuid, pg_uuid, pg_uuids};

statement! {
    /// Ends the cell's outstanding leases among $1 at $4 with outcome $3, and returns what they hold. IS NOT DISTINCT
    /// FROM, here and elsewhere, keeps the planner from going through an index of the cell.
    END(UUIDARRAYOID, INT8OID, TEXTOID, TIMESTAMPTZOID) =
        "WITH ended AS (DELETE FROM claims.claim_leases WHERE uuid = ANY ($1) AND creator_id IS NOT DISTINCT FROM $2
                        RETURNING uuid, creator_id, request_digest, payload),
              outcome AS (INSERT INTO claims.lease_outcomes (lease_uuid, creator_id, outcome, request_digest, settled_at)
                          SELECT uuid, creator_id, $3, request_digest, $4 FROM ended)
         SELECT uuid, payload -> 'create_records', payload -> 'destroy_records' FROM ended";
    /// Those of the leases $1 of cell $2 that no other transaction has locked, now locked, in uuid order.
    LOCK_FREE(UUIDARRAYOID, INT8OID) =
        "SELECT uuid FROM claims.claim_leases
          WHERE uuid = ANY ($1) AND creator_id IS NOT DISTINCT FROM $2 ORDER BY uuid FOR UPDATE SKIP LOCKED";
    /// Fences a lease whose key was passed.
    FENCE(UUIDOID, INT8OID) =
        "WITH fenced AS (DELETE FROM claims.claim_leases WHERE uuid = $1)
         INSERT INTO claims.lease_outcomes (lease_uuid, creator_id, outcome) VALUES ($1, $2, 'rolled_back')
         ON CONFLICT DO NOTHING";
    /// Drops outcomes that were settled more than $1 seconds ago, at most $2 of them, the oldest first.
    PURGE(INT8OID, INT8OID) =
        "DELETE FROM claims.lease_outcomes o
          USING (SELECT lease_uuid FROM claims.lease_outcomes
                  WHERE settled_at <= clock_timestamp() - make_interval(secs => $1)
                  ORDER BY settled_at LIMIT $2 FOR UPDATE SKIP LOCKED) AS old
          WHERE o.lease_uuid = old.lease_uuid";
}

shared_statement! {
    /// What is known of leases: outstanding or an outcome.
    STATE(UUIDARRAYOID) =
        "SELECT uuid, creator_id, NULL::text, request_digest FROM claims.claim_leases WHERE uuid = ANY ($1)
         UNION ALL
         SELECT lease_uuid, creator_id, outcome, request_digest FROM claims.lease_outcomes WHERE lease_uuid = ANY ($1)";
}

/// Ends the cell's leases: deletes their rows and writes their outcome. Waits up to the limit for rows that another
/// transaction holds.
pub fn end(connection: &Connection, leases: &[Uuid], cell_id: i64, ending: Ending, at: Moment) -> Vec<EndedRow> {
    if distribution::is_spread() {
        return distributed::end(connection, leases, cell_id, ending, at);
    }
    let values = [pg_uuids(leases.iter().copied()), cell_id.into(), ending.outcome().into(), at.into()];
    let rows = connection.run(&END, View::Statement, values);
    rows.map(|row| EndedRow { uuid: from_pg_uuid(row.must(1)), creates: row.get(2), destroys: row.get(3) })
}

/// Locks those of the cell's leases that nobody else has locked, and returns them.
pub fn lock_free(connection: &Connection, leases: &[Uuid], cell_id: i64) -> Vec<Uuid> {
    if distribution::is_spread() {
        return distributed::lock_free(connection, leases, cell_id);
    }
    let values = [pg_uuids(leases.iter().copied()), cell_id.into()];
    connection.run(&LOCK_FREE, View::Statement, values).map(|row| from_pg_uuid(row.must(1)))
}

/// What is known of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownLease {
    pub uuid: Uuid,
    pub cell_id: i64,
    /// `None`: outstanding.
    pub outcome: Option<Ending>,
    pub digest: Option<Vec<u8>>,
}

impl KnownLease {
    /// Whether it was begun by the same request.
    pub fn is_of(&self, lease: &NewLease) -> bool {
        let known = self.digest.as_deref().unwrap_or_default();
        known.get(..32) == Some(lease.digest.as_slice()) && (known.len() > 32) == lease.chosen.is_some()
    }

    /// Which of several batches was chosen.
    pub fn chosen(&self) -> Option<u8> {
        self.digest.as_deref()?.get(32).copied()
    }

    pub fn outcome_name(&self) -> &'static str {
        self.outcome.map_or("outstanding", Ending::outcome)
    }
}

/// What is known of leases, as of `view`.
pub fn known(connection: &Connection, leases: &[Uuid], view: View) -> Vec<KnownLease> {
    connection.run(&STATE, view, [pg_uuids(leases.iter().copied())]).map(|row| KnownLease {
        uuid: from_pg_uuid(row.must(1)),
        cell_id: row.must(2),
        outcome: row.get::<String>(3).map(|name| if name == "committed" { Ending::Commit } else { Ending::Rollback }),
        digest: row.get(4),
    })
}

/// Whether a lease has an outcome, committed now or of this transaction. Without a statement: every begin asks.
pub fn has_outcome(connection: &Connection, lease: Uuid) -> bool {
    let key = [KeyPart { column: c"lease_uuid", value: KeyValue::Uuid(pg_uuid(lease)) }];
    let by_statement = || known(connection, &[lease], View::Latest).iter().any(|known| known.outcome.is_some());
    index::is_there_now(c"lease_outcomes", &key).unwrap_or_else(|_| by_statement())
}

/// Where nothing may be waited for, a table that somebody has locked as a whole is an error at once: the waits that a table
/// being extended needs would be in vain.
pub fn refuse_locked_tables(deadline: Instant) -> Result<(), ClaimsError> {
    const WRITTEN: [&CStr; 3] = [c"claim_leases", c"claims", c"lease_outcomes"];
    if deadline > Instant::now() || lock::for_writing(&WRITTEN) { Ok(()) } else { Err(ClaimsError::TableLocked) }
}

/// Whether another open transaction has written or locked the row of the lease: is beginning, fencing or settling it.
pub fn is_in_flight(lease: Uuid) -> bool {
    is_in_flight_in(c"claim_leases", lease)
}

/// The same in a shard of the table.
pub fn is_in_flight_in(table: &CStr, lease: Uuid) -> bool {
    let key = [KeyPart { column: c"uuid", value: KeyValue::Uuid(pg_uuid(lease)) }];
    known_or_raised(in_flight::is_in_flight(table, &key), "claims.claim_leases (uuid)")
}

/// Fences a lease that is not known. `false`: by now it is.
pub fn fence(connection: &Connection, lease: Uuid, cell_id: i64) -> bool {
    pass_key(connection, lease, cell_id)
        && connection.run(&FENCE, View::Statement, [pg_uuid(lease).into(), cell_id.into()]).count() == 1
}

/// Drops up to `limit` outcomes older than `retention` seconds.
pub fn purge_outcomes(connection: &Connection, retention: i64, limit: i64) -> usize {
    if distribution::is_spread() {
        return distributed::purge_outcomes(connection, retention, limit);
    }
    connection.run(&PURGE, View::Statement, [retention.into(), limit.into()]).count()
}
