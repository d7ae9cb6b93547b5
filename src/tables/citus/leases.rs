//! Statements on distributed leases. Each is sent to one shard, by the lease's uuid.

use std::collections::BTreeMap;
use std::convert::Infallible;

use claims_model::Bucket;
use pgrx::Uuid as PgUuid;
use uuid::Uuid;

use super::door::Citus;
use super::keys::{beside, grouped, shards_of_outcomes};
use crate::tables::door::{LeaseInUse, LeaseTables, Tables};
use crate::tables::rows::leases::{EndedRow, LeaseEnding, NewLease};
use crate::tables::shared::leases::{existing, pass_key};
use pg::clock::Moment;
use pg::spi::{Connection, Row, Value, View};
use pg::statement::{shard_statement, shared_statement};
use pg::uuid::{from_pg_uuid, pg_uuid, pg_uuids};

/// Returns the claims of deleted leases, and inserts outcome $4 at $5 into shard $3.
macro_rules! ended {
    () => {
        "RETURNING l.payload -> 'create_records', l.payload -> 'destroy_records',
                   claims.put_outcome_on_node(l.uuid, l.creator_id, l.request_digest, $3, $4, $5)"
    };
}

shared_statement! {
    OLD_OUTCOMES(INT8OID, INT8OID) =
        "SELECT o.lease_uuid FROM claims.lease_outcomes o WHERE o.settled_at <= clock_timestamp() - make_interval(secs => $1)
          ORDER BY o.settled_at LIMIT $2";
    /// Locks outcomes of one shard.
    LOCK_OUTCOMES(UUIDARRAYOID) = "SELECT o.lease_uuid FROM claims.lease_outcomes o WHERE o.lease_uuid = ANY ($1) FOR UPDATE SKIP LOCKED";
    /// Locks leases of one shard.
    LOCK_FREE_SOME(UUIDARRAYOID, INT8OID) =
        "SELECT l.uuid FROM claims.claim_leases l WHERE l.uuid = ANY ($1) AND l.creator_id = $2 FOR UPDATE SKIP LOCKED";
    /// Like [END], for several leases of one shard. Returns their uuids, too.
    END_SOME(UUIDARRAYOID, INT8OID, INT8OID, TEXTOID, TIMESTAMPTZOID) =
        concat!("DELETE FROM claims.claim_leases l WHERE l.uuid = ANY ($1) AND l.creator_id = $2 ", ended!(), ", l.uuid");
    DROP_OUTCOMES(UUIDARRAYOID) = "DELETE FROM claims.lease_outcomes o WHERE o.lease_uuid = ANY ($1)";
}

shard_statement! {
    LEASE(UUIDOID, INT8OID, TIMESTAMPTZOID, JSONBOID, BYTEAOID, XID8OID) = concat!(insert_lease!(), " RETURNING claims.is_current_shard(tableoid)");
    /// Ends a lease with outcome $4 at $5, and returns its claims. The outcome goes to shard $3, which is colocated with the
    /// lease's shard.
    END(UUIDOID, INT8OID, INT8OID, TEXTOID, TIMESTAMPTZOID) =
        concat!("DELETE FROM claims.claim_leases l WHERE l.uuid = $1 AND l.creator_id = $2 ", ended!());
    UNPASS_KEY(UUIDOID) = "DELETE FROM claims.claim_leases l WHERE l.uuid = $1";
    FENCE(UUIDOID, INT8OID, TIMESTAMPTZOID) =
        "INSERT INTO claims.lease_outcomes (lease_uuid, creator_id, outcome, settled_at) VALUES ($1, $2, 'rolled_back', $3)
         ON CONFLICT DO NOTHING RETURNING claims.is_current_shard(tableoid)";
    LOCK_FREE(UUIDOID, INT8OID) =
        "SELECT l.uuid FROM claims.claim_leases l WHERE l.uuid = $1 AND l.creator_id = $2 FOR UPDATE SKIP LOCKED";
}

/// Inserts a lease. An existing uuid is a unique violation.
pub fn put_lease(connection: &Connection, lease: &NewLease) {
    connection.run(&LEASE, View::Statement, lease.values());
}

/// Fences an unknown lease. Returns `false` if the lease is known by now.
fn fence(connection: &Connection, lease: Uuid, cell_id: i64) -> bool {
    if !pass_key(connection, lease, cell_id) {
        return false;
    }
    connection.run(&UNPASS_KEY, View::Statement, [pg_uuid(lease).into()]);
    let values = [pg_uuid(lease).into(), cell_id.into(), Moment::now().into()];
    connection.run(&FENCE, View::Statement, values).count() == 1
}

/// Groups leases by the shards of their outcomes. Leases of one group are in one shard, too, because the tables are colocated.
fn leases_by_shard(connection: &Connection, leases: &[Uuid]) -> BTreeMap<i64, Vec<Uuid>> {
    let shards = shards_of_outcomes(connection, leases.iter().copied().map(pg_uuid).collect());
    grouped(shards.into_iter().zip(leases.iter().copied()))
}

fn uuid(row: Row) -> Uuid {
    from_pg_uuid(row.must(1))
}

/// Number of uuids to draw to find one on the node of a bucket: enough for a few nodes.
const DRAWN: usize = 16;

impl LeaseTables for Citus {
    /// Waits up to the lock timeout, whether the call may wait or not: to ask before takes two round trips.
    fn end(&self, connection: &Connection, list: &[Uuid], ending: &LeaseEnding) -> Result<Vec<EndedRow>, LeaseInUse> {
        let LeaseEnding { cell_id, ending, at, .. } = *ending;
        let end = |(shard, leases): (i64, Vec<Uuid>)| {
            let outcome: [Value; 4] = [cell_id.into(), shard.into(), ending.outcome().into(), at.into()];
            let row = |uuid: Uuid, row: &Row| EndedRow { uuid, creates: row.get(1), destroys: row.get(2) };
            match leases.as_slice() {
                [only] => {
                    let key: [Value; 1] = [pg_uuid(*only).into()];
                    let ended = connection.run(&END, View::Statement, key.into_iter().chain(outcome));
                    ended.map(|ended| row(*only, &ended))
                }
                several => {
                    let keys = [pg_uuids(several.iter().copied())];
                    let ended = connection.run(&END_SOME, View::Statement, keys.into_iter().chain(outcome));
                    ended.map(|ended| row(from_pg_uuid(ended.must(4)), &ended))
                }
            }
        };
        let mut ended: Vec<_> = leases_by_shard(connection, list).into_iter().flat_map(end).collect();
        // The order in which the change feed tells of them.
        ended.sort_by_key(|row| row.uuid);
        Ok(ended)
    }

    fn lock_free(&self, connection: &Connection, list: &[Uuid], cell_id: i64) -> Vec<Uuid> {
        let lock = |leases: Vec<Uuid>| match leases.as_slice() {
            [only] => connection.run(&LOCK_FREE, View::Statement, [pg_uuid(*only).into(), cell_id.into()]).map(uuid),
            several => {
                let values: [Value; 2] = [pg_uuids(several.iter().copied()), cell_id.into()];
                connection.run(&LOCK_FREE_SOME, View::Statement, values).map(uuid)
            }
        };
        leases_by_shard(connection, list).into_values().flat_map(lock).collect()
    }

    fn purge_outcomes(&self, connection: &Connection, retention: i64, limit: i64) -> usize {
        let old = connection.run(&OLD_OUTCOMES, View::Latest, [retention.into(), limit.into()]);
        let old: Vec<PgUuid> = old.map(|row| row.must(1));
        let parts = grouped(shards_of_outcomes(connection, old.clone()).into_iter().zip(old));
        let lock =
            |part: Vec<PgUuid>| connection.run(&LOCK_OUTCOMES, View::Statement, [part.into()]).map(|row| row.must(1));
        let locked: Vec<PgUuid> = parts.into_values().flat_map(lock).collect();
        if locked.is_empty() { 0 } else { connection.run(&DROP_OUTCOMES, View::Statement, [locked.into()]).count() }
    }

    fn has_outcome(&self, connection: &Connection, lease: Uuid) -> bool {
        existing(connection, &[lease], View::Latest).iter().any(|lease| lease.outcome.is_some())
    }

    fn fence(&self, connection: &Connection, lease: Uuid, cell_id: i64) -> bool {
        let Ok(is_fenced) =
            (self as &dyn Tables).bounded(connection, || Ok::<_, Infallible>(fence(connection, lease, cell_id)));
        is_fenced
    }

    /// Chooses a uuid on the node of the bucket: a transaction on one node needs no two-phase commit.
    fn new_lease(&self, connection: &Connection, bucket: Option<&Bucket>) -> Uuid {
        let drawn: Vec<_> = (0..DRAWN).map(|_| Uuid::now_v7()).collect();
        bucket.and_then(|bucket| beside(connection, bucket, &drawn)).unwrap_or(drawn[0])
    }
}
