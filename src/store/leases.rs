//! Statements on leases and their outcomes.

use claims_model::Bucket;
use pgrx::Uuid as PgUuid;
use uuid::Uuid;

use super::claims::{BucketArrays, on_bucket};
use crate::pg::clock::Moment;
use crate::pg::jsonb::{JsonText, Jsonb};
use crate::pg::spi::{Connection, Value, View};
use crate::pg::xid8::Xid8;
use crate::statement;

statement! {
    /// The cell's outstanding leases among $1, locked in uuid order. Waits up to `lock_timeout`.
    LOCK(UUIDARRAYOID, INT8OID) =
        "SELECT uuid, payload -> 'create_records', payload -> 'destroy_records' FROM claims.claim_leases
          WHERE uuid = ANY ($1) AND creator_id = $2 ORDER BY uuid FOR UPDATE";
    /// The same, without waiting: a lock that another transaction has is an error at once.
    LOCK_NOWAIT(UUIDARRAYOID, INT8OID) =
        "SELECT uuid, payload -> 'create_records', payload -> 'destroy_records' FROM claims.claim_leases
          WHERE uuid = ANY ($1) AND creator_id = $2 ORDER BY uuid FOR UPDATE NOWAIT";
    /// The same, passing over those that another transaction has locked.
    LOCK_FREE(UUIDARRAYOID, INT8OID) =
        "SELECT uuid, payload -> 'create_records', payload -> 'destroy_records' FROM claims.claim_leases
          WHERE uuid = ANY ($1) AND creator_id = $2 ORDER BY uuid FOR UPDATE SKIP LOCKED";
    /// Ends leases $1 as committed at $2: creates ($3, $4, $5) become ACTIVE, destroys ($6, $7, $8) go.
    COMMIT(UUIDARRAYOID, TIMESTAMPTZOID, UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID, UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID) = concat!(
        "WITH ended AS (DELETE FROM claims.claim_leases WHERE uuid = ANY ($1) RETURNING uuid, creator_id, request_digest),
              outcome AS (INSERT INTO claims.lease_outcomes (lease_uuid, creator_id, outcome, request_digest, settled_at)
                          SELECT uuid, creator_id, 'committed', request_digest, $2 FROM ended),
              created AS (UPDATE claims.claims c SET status = 1, lease_uuid = NULL, updated_at = $2
                            FROM unnest($3, $4, $5) AS b (lease_uuid, bucket_type, bucket_value)
                           WHERE ", on_bucket!(), " AND c.lease_uuid = b.lease_uuid AND c.status = 2 RETURNING 1),
              destroyed AS (DELETE FROM claims.claims c
                             USING unnest($6, $7, $8) AS b (lease_uuid, bucket_type, bucket_value)
                             WHERE ", on_bucket!(), " AND c.lease_uuid = b.lease_uuid AND c.status = 3 RETURNING 1)
         SELECT (SELECT count(*) FROM ended), (SELECT count(*) FROM created) + (SELECT count(*) FROM destroyed)");
    /// Ends leases $1 as rolled back at $2: creates go, destroys become ACTIVE.
    ROLLBACK(UUIDARRAYOID, TIMESTAMPTZOID, UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID, UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID) = concat!(
        "WITH ended AS (DELETE FROM claims.claim_leases WHERE uuid = ANY ($1) RETURNING uuid, creator_id, request_digest),
              outcome AS (INSERT INTO claims.lease_outcomes (lease_uuid, creator_id, outcome, request_digest, settled_at)
                          SELECT uuid, creator_id, 'rolled_back', request_digest, $2 FROM ended),
              created AS (DELETE FROM claims.claims c
                           USING unnest($3, $4, $5) AS b (lease_uuid, bucket_type, bucket_value)
                           WHERE ", on_bucket!(), " AND c.lease_uuid = b.lease_uuid AND c.status = 2 RETURNING 1),
              destroyed AS (UPDATE claims.claims c SET status = 1, lease_uuid = NULL, updated_at = $2
                              FROM unnest($6, $7, $8) AS b (lease_uuid, bucket_type, bucket_value)
                             WHERE ", on_bucket!(), " AND c.lease_uuid = b.lease_uuid AND c.status = 3 RETURNING 1)
         SELECT (SELECT count(*) FROM ended), (SELECT count(*) FROM created) + (SELECT count(*) FROM destroyed)");
    /// What is known of leases: outstanding or an outcome.
    STATE(UUIDARRAYOID) =
        "SELECT uuid, creator_id, NULL::text, request_digest FROM claims.claim_leases WHERE uuid = ANY ($1)
         UNION ALL
         SELECT lease_uuid, creator_id, outcome, request_digest FROM claims.lease_outcomes WHERE lease_uuid = ANY ($1)";
    /// Fences a lease that never began. It passes through both unique keys, the outstanding lease's and the outcome's:
    /// so it meets every begin of the same uuid, whether that is still open, committed, or yet to come.
    FENCE_LEASE(UUIDOID, INT8OID) =
        "INSERT INTO claims.claim_leases (uuid, creator_id, payload) VALUES ($1, $2, '{}') ON CONFLICT DO NOTHING";
    FENCE_OUTCOME(UUIDOID, INT8OID) =
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

pub fn pg_uuid(uuid: Uuid) -> PgUuid {
    PgUuid::from_bytes(*uuid.as_bytes())
}

pub fn from_pg_uuid(uuid: PgUuid) -> Uuid {
    Uuid::from_bytes(*uuid.as_bytes())
}

fn pg_uuids(uuids: impl IntoIterator<Item = Uuid>) -> Value {
    uuids.into_iter().map(pg_uuid).collect::<Vec<_>>().into()
}

/// A lease that is about to be.
pub struct NewLease {
    pub uuid: Uuid,
    pub cell_id: i64,
    pub made_at: Moment,
    pub payload: String,
    pub digest: [u8; 32],
    pub cell_xid: Option<Xid8>,
}

impl NewLease {
    /// uuid, cell and time.
    pub(super) fn key_values(&self) -> [Value; 3] {
        [pg_uuid(self.uuid).into(), self.cell_id.into(), self.made_at.into()]
    }

    /// The whole row.
    pub(super) fn values(&self) -> [Value; 6] {
        let [uuid, cell_id, made_at] = self.key_values();
        let payload = JsonText(self.payload.clone());
        [uuid, cell_id, made_at, payload.into(), self.digest.as_slice().into(), self.cell_xid.into()]
    }
}

/// How a lease ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Commit,
    Rollback,
}

/// A lease of this cell that this transaction has locked.
pub struct Locked {
    pub uuid: Uuid,
    pub creates: Option<Jsonb>,
    pub destroys: Option<Jsonb>,
}

/// What to do about a lease that another transaction has locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenLocked {
    /// Wait for it, up to `lock_timeout`.
    Wait,
    /// Fail at once.
    Fail,
    /// Pass over it.
    Skip,
}

/// Locks outstanding leases of the cell.
pub fn lock(connection: &Connection, leases: &[Uuid], cell_id: i64, when_locked: WhenLocked) -> Vec<Locked> {
    let statement = match when_locked {
        WhenLocked::Wait => &LOCK,
        WhenLocked::Fail => &LOCK_NOWAIT,
        WhenLocked::Skip => &LOCK_FREE,
    };
    let rows = connection.run(statement, View::Statement, [pg_uuids(leases.iter().copied()), cell_id.into()]);
    rows.map(|row| Locked { uuid: from_pg_uuid(row.must(1)), creates: row.get(2), destroys: row.get(3) })
}

/// The buckets that a locked lease holds.
pub struct Held<'a> {
    pub lease: Uuid,
    pub creates: Vec<Bucket<'a>>,
    pub destroys: Vec<Bucket<'a>>,
}

impl Held<'_> {
    pub fn count(&self) -> usize {
        self.creates.len() + self.destroys.len()
    }
}

/// Ends locked leases; returns how many leases and how many claims it found in the state in which they had to be.
pub fn end(connection: &Connection, ending: Ending, held: &[Held]) -> (i64, i64) {
    let statement = match ending {
        Ending::Commit => &COMMIT,
        Ending::Rollback => &ROLLBACK,
    };
    let leases = pg_uuids(held.iter().map(|lease| lease.lease));
    let creates = lease_buckets(held, |lease| &lease.creates);
    let destroys = lease_buckets(held, |lease| &lease.destroys);
    let values = [leases, Moment::now().into()].into_iter().chain(creates).chain(destroys);
    connection.run(statement, View::Statement, values).first(|row| (row.must(1), row.must(2))).unwrap_or((0, 0))
}

/// The buckets of several leases, in bucket order, each with its lease.
fn lease_buckets<'h>(held: &'h [Held<'h>], part: fn(&'h Held<'h>) -> &'h Vec<Bucket<'h>>) -> [Value; 3] {
    let mut pairs: Vec<_> =
        held.iter().flat_map(|lease| part(lease).iter().map(|bucket| (bucket, lease.lease))).collect();
    pairs.sort_unstable();
    let leases = pg_uuids(pairs.iter().map(|(_, lease)| *lease));
    let [types, values] = BucketArrays::new(pairs.iter().map(|(bucket, _)| *bucket)).into_values();
    [leases, types, values]
}

/// What is known of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    pub uuid: Uuid,
    pub cell_id: i64,
    /// `None`: outstanding.
    pub outcome: Option<Ending>,
    pub digest: Option<Vec<u8>>,
}

impl Known {
    pub fn outcome_name(&self) -> &'static str {
        match self.outcome {
            None => "outstanding",
            Some(Ending::Commit) => "committed",
            Some(Ending::Rollback) => "rolled_back",
        }
    }
}

/// What is known of leases, as of `view`.
pub fn known(connection: &Connection, leases: &[Uuid], view: View) -> Vec<Known> {
    connection.run(&STATE, view, [pg_uuids(leases.iter().copied())]).map(|row| Known {
        uuid: from_pg_uuid(row.must(1)),
        cell_id: row.must(2),
        outcome: row.get::<String>(3).map(|name| if name == "committed" { Ending::Commit } else { Ending::Rollback }),
        digest: row.get(4),
    })
}

/// Fences a lease that is not known. `false`: by now it is.
pub fn fence(connection: &Connection, lease: Uuid, cell_id: i64) -> bool {
    let values = || [pg_uuid(lease).into(), cell_id.into()];
    connection.run(&FENCE_LEASE, View::Statement, values()).count() == 1
        && connection.run(&FENCE_OUTCOME, View::Statement, values()).count() == 1
}

/// Drops up to `limit` outcomes older than `retention` seconds.
pub fn purge_outcomes(connection: &Connection, retention: i64, limit: i64) -> usize {
    connection.run(&PURGE, View::Statement, [retention.into(), limit.into()]).count()
}
