//! Statements on leases and their outcomes.

use uuid::Uuid;

use super::door::Local;
use crate::pg::clock::Moment;
use crate::pg::index::{self, KeyPart, KeyValue};
use crate::pg::spi::{Connection, View};
use crate::pg::statement::statement;
use crate::pg::uuid::{from_pg_uuid, pg_uuid, pg_uuids};
use crate::tables::door::LeaseTables;
use crate::tables::rows::leases::{EndedRow, Ending};
use crate::tables::shared::leases::{existing, pass_key};

statement! {
    /// Ends the cell's outstanding leases among $1 at $4 with outcome $3, and returns their claims. IS NOT DISTINCT FROM, here
    /// and elsewhere, keeps the planner from using an index on the cell.
    END(UUIDARRAYOID, INT8OID, TEXTOID, TIMESTAMPTZOID) =
        "WITH ended AS (DELETE FROM claims.claim_leases WHERE uuid = ANY ($1) AND creator_id IS NOT DISTINCT FROM $2
                        RETURNING uuid, creator_id, request_digest, payload),
              outcome AS (INSERT INTO claims.lease_outcomes (lease_uuid, creator_id, outcome, request_digest, settled_at)
                          SELECT uuid, creator_id, $3, request_digest, $4 FROM ended)
         SELECT uuid, payload -> 'create_records', payload -> 'destroy_records' FROM ended";
    /// Locks those of the leases $1 of cell $2 that no other transaction has locked, in uuid order, and returns them.
    LOCK_FREE(UUIDARRAYOID, INT8OID) =
        "SELECT uuid FROM claims.claim_leases
          WHERE uuid = ANY ($1) AND creator_id IS NOT DISTINCT FROM $2 ORDER BY uuid FOR UPDATE SKIP LOCKED";
    /// Fences a lease whose key PASS_KEY has inserted.
    FENCE(UUIDOID, INT8OID) =
        "WITH fenced AS (DELETE FROM claims.claim_leases WHERE uuid = $1)
         INSERT INTO claims.lease_outcomes (lease_uuid, creator_id, outcome) VALUES ($1, $2, 'rolled_back')
         ON CONFLICT DO NOTHING";
    /// Deletes outcomes that were settled more than $1 seconds ago, at most $2 of them, the oldest first.
    PURGE(INT8OID, INT8OID) =
        "DELETE FROM claims.lease_outcomes o
          USING (SELECT lease_uuid FROM claims.lease_outcomes
                  WHERE settled_at <= clock_timestamp() - make_interval(secs => $1)
                  ORDER BY settled_at LIMIT $2 FOR UPDATE SKIP LOCKED) AS old
          WHERE o.lease_uuid = old.lease_uuid";
}

impl LeaseTables for Local {
    fn end(&self, connection: &Connection, leases: &[Uuid], cell_id: i64, ending: Ending, at: Moment) -> Vec<EndedRow> {
        let values = [pg_uuids(leases.iter().copied()), cell_id.into(), ending.outcome().into(), at.into()];
        let rows = connection.run(&END, View::Statement, values);
        rows.map(|row| EndedRow { uuid: from_pg_uuid(row.must(1)), creates: row.get(2), destroys: row.get(3) })
    }

    fn lock_free(&self, connection: &Connection, leases: &[Uuid], cell_id: i64) -> Vec<Uuid> {
        let values = [pg_uuids(leases.iter().copied()), cell_id.into()];
        connection.run(&LOCK_FREE, View::Statement, values).map(|row| from_pg_uuid(row.must(1)))
    }

    /// Reads the index without a statement, because every begin with a client's uuid asks this.
    fn has_outcome(&self, connection: &Connection, lease: Uuid) -> bool {
        let key = [KeyPart { column: c"lease_uuid", value: KeyValue::Uuid(pg_uuid(lease)) }];
        let by_statement = || existing(connection, &[lease], View::Latest).iter().any(|lease| lease.outcome.is_some());
        index::is_there_now(c"lease_outcomes", &key).unwrap_or_else(|_| by_statement())
    }

    fn fence(&self, connection: &Connection, lease: Uuid, cell_id: i64) -> bool {
        pass_key(connection, lease, cell_id)
            && connection.run(&FENCE, View::Statement, [pg_uuid(lease).into(), cell_id.into()]).count() == 1
    }

    fn purge_outcomes(&self, connection: &Connection, retention: i64, limit: i64) -> usize {
        connection.run(&PURGE, View::Statement, [retention.into(), limit.into()]).count()
    }
}
