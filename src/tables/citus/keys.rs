//! Finds the shards and the nodes of keys, from the catalogs of this node only.

use std::collections::BTreeMap;

use claims_model::Bucket;
use claims_model::lookalike::Skeleton;
use pgrx::Uuid as PgUuid;
use uuid::Uuid;

use pg::spi::{Connection, Value, View};
use pg::statement::shard_statement;
use pg::uuid::{from_pg_uuid, pg_uuid, pg_uuids};

shard_statement! {
    /// Returns the first of the lease uuids $2 whose shard is on the node of bucket value $1.
    BESIDE(TEXTOID, UUIDARRAYOID) =
        "SELECT n.uuid FROM unnest($2) WITH ORDINALITY AS n (uuid, nth)
           JOIN pg_dist_placement l ON l.shardid = get_shard_id_for_distribution_column('claims.claim_leases', n.uuid)
          WHERE l.groupid = (SELECT c.groupid FROM pg_dist_placement c
                              WHERE c.shardid = get_shard_id_for_distribution_column('claims.claims', $1) LIMIT 1)
          ORDER BY n.nth LIMIT 1";
    /// Returns the shards of keys, in their order.
    SHARDS_OF_BUCKETS(TEXTARRAYOID) =
        "SELECT get_shard_id_for_distribution_column('claims.claims', n.value)
           FROM unnest($1) WITH ORDINALITY AS n (value, nth) ORDER BY n.nth";
    SHARD_OF_LEASE(UUIDOID) = "SELECT get_shard_id_for_distribution_column('claims.claim_leases', $1)::text";
    SHARDS_OF_OUTCOMES(UUIDARRAYOID) =
        "SELECT get_shard_id_for_distribution_column('claims.lease_outcomes', n.uuid)
           FROM unnest($1) WITH ORDINALITY AS n (uuid, nth) ORDER BY n.nth";
    SHARDS_OF_SKELETONS(UUIDARRAYOID) =
        "SELECT get_shard_id_for_distribution_column('claims.skeletons', n.hash)
           FROM unnest($1) WITH ORDINALITY AS n (hash, nth) ORDER BY n.nth";
}

/// Returns the first of the uuids whose lease would be on the node of a bucket.
pub fn beside(connection: &Connection, bucket: &Bucket, drawn: &[Uuid]) -> Option<Uuid> {
    let values: [Value; 2] = [(&*bucket.value).into(), pg_uuids(drawn.iter().copied())];
    connection.run(&BESIDE, View::Latest, values).first(|row| from_pg_uuid(row.must(1)))
}

/// Groups buckets by their shards, in their order. A statement on the buckets of one group is sent to one node.
pub fn by_shard<'b, 'n>(connection: &Connection, buckets: &[&'b Bucket<'n>]) -> BTreeMap<i64, Vec<&'b Bucket<'n>>> {
    grouped(shards_of_buckets(connection, buckets).into_iter().zip(buckets.iter().copied()))
}

/// Returns the shards of buckets, in their order.
pub(super) fn shards_of_buckets(connection: &Connection, buckets: &[&Bucket]) -> Vec<i64> {
    let values: Vec<&str> = buckets.iter().map(|bucket| &*bucket.value).collect();
    connection.run(&SHARDS_OF_BUCKETS, View::Latest, [values.into()]).map(|row| row.must(1))
}

/// Groups rows by their shards, in their order.
pub(super) fn grouped<T>(rows: impl Iterator<Item = (i64, T)>) -> BTreeMap<i64, Vec<T>> {
    let mut groups: BTreeMap<i64, Vec<T>> = BTreeMap::new();
    for (shard, row) in rows {
        groups.entry(shard).or_default().push(row);
    }
    groups
}

/// Returns the shards of outcomes, in the order of their leases.
pub(super) fn shards_of_outcomes(connection: &Connection, leases: Vec<PgUuid>) -> Vec<i64> {
    connection.run(&SHARDS_OF_OUTCOMES, View::Latest, [leases.into()]).map(|row| row.must(1))
}

pub(super) fn shard_of_lease(connection: &Connection, lease: Uuid) -> Option<String> {
    connection.run(&SHARD_OF_LEASE, View::Latest, [pg_uuid(lease).into()]).first(|row| row.must(1))
}

/// Returns the shards of skeletons, in their order.
pub(super) fn shards_of_skeletons(connection: &Connection, skeletons: impl Iterator<Item = Skeleton>) -> Vec<i64> {
    let hashes = pg_uuids(skeletons.map(|skeleton| skeleton.hash));
    connection.run(&SHARDS_OF_SKELETONS, View::Latest, [hashes]).map(|row| row.must(1))
}
