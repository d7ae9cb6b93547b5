//! Statements on distributed leases. Each is sent to one shard, by the lease's uuid.

use std::collections::BTreeMap;
use std::convert::Infallible;

use claims_model::{Bucket, Claim};
use uuid::Uuid;

use super::cluster::Citus;
use super::keys::{beside, grouped, shards_of_outcomes};
use crate::kernel::call::Call;
use crate::service::claims::leases::{existing, pass_key};
use crate::service::claims::{EndedRow, LeaseEnding, LeaseInUse, LeaseTables, NewClaims, NewLease};
use pg::clock::Moment;
use pg::jsonb::Jsonb;
use pg::query::query;
use pg::spi::{Connection, View};
use pg::xid8::Xid8;

/// Ends leases of a cell: deletes their rows, and inserts the outcome into the shard that is colocated with theirs.
macro_rules! end {
    ($which:literal) => {
        concat!(
            "DELETE FROM claims.claim_leases l WHERE ",
            $which,
            " AND l.creator_id = :cell_id
             RETURNING l.uuid, l.payload -> 'create_records' AS creates, l.payload -> 'destroy_records' AS destroys, l.context, l.cell_role,
                       claims.put_outcome_on_node(l.uuid, l.creator_id, l.request_digest, :shard, :outcome, :at)"
        )
    };
}

macro_rules! insert {
    ($returning:literal) => {
        concat!(
            "INSERT INTO claims.claim_leases (uuid, creator_id, created_at, updated_at, payload, request_digest, cell_xid, context, cell_role)
             VALUES (:lease, :cell_id, :at, :at, :payload, :request_digest, :cell_xid, :context, :cell_role) RETURNING ",
            $returning
        )
    };
}

query! {
    fn old_outcomes(retention: i64, most: i64) -> Vec<Uuid> = [Latest Anywhere]
        "SELECT o.lease_uuid FROM claims.lease_outcomes o WHERE o.settled_at <= clock_timestamp() - make_interval(secs => :retention)
          ORDER BY o.settled_at LIMIT :most";
    /// Locks outcomes of one shard.
    fn lock_outcomes(leases: &[Uuid]) -> Vec<Uuid> = [Statement Anywhere]
        "SELECT o.lease_uuid FROM claims.lease_outcomes o WHERE o.lease_uuid = ANY (:leases) FOR UPDATE SKIP LOCKED";
    fn drop_outcomes(leases: &[Uuid]) -> usize = [Statement Anywhere]
        "DELETE FROM claims.lease_outcomes o WHERE o.lease_uuid = ANY (:leases)";
    fn lock_one(lease: Uuid, cell_id: i64) -> Vec<Uuid> = [Statement OneShard]
        "SELECT l.uuid FROM claims.claim_leases l WHERE l.uuid = :lease AND l.creator_id = :cell_id FOR UPDATE SKIP LOCKED";
    /// Locks leases of one shard.
    fn lock_some(leases: &[Uuid], cell_id: i64) -> Vec<Uuid> = [Statement Anywhere]
        "SELECT l.uuid FROM claims.claim_leases l WHERE l.uuid = ANY (:leases) AND l.creator_id = :cell_id FOR UPDATE SKIP LOCKED";
    fn end_one(lease: Uuid, cell_id: i64, shard: i64, outcome: &str, at: Moment) -> Vec<EndedRow> = [Statement OneShard]
        end!("l.uuid = :lease");
    /// Like [`end_one`], for several leases of one shard.
    fn end_some(leases: &[Uuid], cell_id: i64, shard: i64, outcome: &str, at: Moment) -> Vec<EndedRow> = [Statement Anywhere]
        end!("l.uuid = ANY (:leases)");
    fn insert(
        lease: Uuid, cell_id: i64, at: Moment, payload: Jsonb, request_digest: &[u8], cell_xid: Option<Xid8>, context: Option<&str>,
        cell_role: Option<&str>,
    ) = [Statement OneShard]
        insert!("claims.is_current_shard(tableoid)");
    /// Inserts a lease, and claims in shards of its node. Returns the number of claims.
    fn insert_with_claims(
        lease: Uuid, cell_id: i64, at: Moment, payload: Jsonb, request_digest: &[u8], cell_xid: Option<Xid8>, context: Option<&str>,
        cell_role: Option<&str>, parts: &[i32], shards: &[i64];
        ..new: NewClaims
    ) -> Vec<i32> = [Statement OneShard] insert!(
        "claims.create_on_node(uuid::text, ARRAY[:lease::text], :parts, :shards, :lease, :cell_id, :at, :uuid, :bucket_type, :bucket_value,
                               :subject_type, :subject_id, :source_type, :source_id, :display_value)");
    fn delete(lease: Uuid) = [Statement OneShard] "DELETE FROM claims.claim_leases l WHERE l.uuid = :lease";
    fn put_fence(lease: Uuid, cell_id: i64, at: Moment) -> usize = [Statement OneShard]
        "INSERT INTO claims.lease_outcomes (lease_uuid, creator_id, outcome, settled_at) VALUES (:lease, :cell_id, 'rolled_back', :at)
         ON CONFLICT DO NOTHING RETURNING claims.is_current_shard(tableoid)";
}

/// Inserts a lease. An existing uuid is a unique violation.
pub fn put_lease(connection: &Connection, lease: &NewLease) {
    let (payload, digest) = (lease.payload.clone(), lease.stored_digest());
    let (context, cell_role) = (lease.attribution.context.as_deref(), lease.attribution.cell_role.as_deref());
    insert(connection, lease.uuid, lease.cell_id, lease.made_at, payload, &digest, lease.cell_xid, context, cell_role);
}

/// Inserts a lease and claims that it creates, which are in these shards of the lease's node. Returns how many claims were written.
pub fn put_with_claims(connection: &Connection, lease: &NewLease, shards: &[i64], claims: &[&Claim]) -> Vec<i32> {
    let (payload, digest, parts) = (lease.payload.clone(), lease.stored_digest(), vec![1; shards.len()]);
    let NewLease { uuid, cell_id, made_at, cell_xid, .. } = *lease;
    let (context, cell_role) = (lease.attribution.context.as_deref(), lease.attribution.cell_role.as_deref());
    let new = NewClaims::of(claims);
    insert_with_claims(
        connection, uuid, cell_id, made_at, payload, &digest, cell_xid, context, cell_role, &parts, shards, new,
    )
}

/// Fences an unknown lease. Returns `false` if the lease is known by now.
fn fence(connection: &Connection, lease: Uuid, cell_id: i64) -> bool {
    if !pass_key(connection, lease, cell_id) {
        return false;
    }
    delete(connection, lease);
    put_fence(connection, lease, cell_id, Moment::now()) == 1
}

/// Groups leases by the shards of their outcomes. Leases of one group are in one shard, too, because the tables are colocated.
fn leases_by_shard(connection: &Connection, leases: &[Uuid]) -> BTreeMap<i64, Vec<Uuid>> {
    grouped(shards_of_outcomes(connection, leases).into_iter().zip(leases.iter().copied()))
}

/// Number of uuids to draw to find one on the node of a bucket: enough for a few nodes.
const DRAWN: usize = 16;

impl LeaseTables for Citus {
    /// Waits up to the lock timeout, whether the call may wait or not: to ask before takes two round trips.
    fn end(&self, connection: &Connection, list: &[Uuid], ending: &LeaseEnding) -> Result<Vec<EndedRow>, LeaseInUse> {
        let LeaseEnding { cell_id, ending, at, .. } = *ending;
        let end = |(shard, leases): (i64, Vec<Uuid>)| match leases.as_slice() {
            [only] => end_one(connection, *only, cell_id, shard, ending.outcome(), at),
            several => end_some(connection, several, cell_id, shard, ending.outcome(), at),
        };
        let mut ended: Vec<_> = leases_by_shard(connection, list).into_iter().flat_map(end).collect();
        // The order in which the change feed tells of them.
        ended.sort_by_key(|row| row.uuid);
        Ok(ended)
    }

    fn lock_free(&self, connection: &Connection, list: &[Uuid], cell_id: i64) -> Vec<Uuid> {
        let lock = |leases: Vec<Uuid>| match leases.as_slice() {
            [only] => lock_one(connection, *only, cell_id),
            several => lock_some(connection, several, cell_id),
        };
        leases_by_shard(connection, list).into_values().flat_map(lock).collect()
    }

    fn purge_outcomes(&self, connection: &Connection, retention: i64, limit: i64) -> usize {
        let old = old_outcomes(connection, retention, limit);
        let parts = leases_by_shard(connection, &old).into_values();
        let locked: Vec<Uuid> = parts.flat_map(|part| lock_outcomes(connection, &part)).collect();
        if locked.is_empty() { 0 } else { drop_outcomes(connection, &locked) }
    }

    fn has_outcome(&self, connection: &Connection, lease: Uuid) -> bool {
        existing(connection, &[lease], View::Latest).iter().any(|lease| lease.outcome.is_some())
    }

    fn fence(&self, connection: &Connection, lease: Uuid, cell_id: i64) -> bool {
        let Ok(is_fenced) = Call::over(connection).bounded(|| Ok::<_, Infallible>(fence(connection, lease, cell_id)));
        is_fenced
    }

    /// Chooses a uuid on the node of the bucket: a transaction on one node needs no two-phase commit.
    fn new_lease(&self, connection: &Connection, bucket: Option<&Bucket>) -> Uuid {
        let drawn: Vec<_> = (0..DRAWN).map(|_| Uuid::now_v7()).collect();
        bucket.and_then(|bucket| beside(connection, bucket, &drawn)).unwrap_or(drawn[0])
    }
}
