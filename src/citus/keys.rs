//! Finds the shards and the nodes of keys, from the catalogs of this node only.

use std::collections::BTreeMap;

use claims_model::Bucket;
use claims_model::lookalike::Skeleton;
use uuid::Uuid;

use pg::query::query;
use pg::spi::Connection;

query! {
    /// Returns the first of the lease uuids whose shard is on the node of a bucket.
    fn first_beside(bucket_value: &str, leases: &[Uuid]) -> Option<Uuid> = [Latest OneShard]
        "SELECT n.uuid FROM unnest(:leases) WITH ORDINALITY AS n (uuid, nth)
           JOIN pg_dist_placement l ON l.shardid = get_shard_id_for_distribution_column('claims.claim_leases', n.uuid)
          WHERE l.groupid = (SELECT c.groupid FROM pg_dist_placement c
                              WHERE c.shardid = get_shard_id_for_distribution_column('claims.claims', :bucket_value) LIMIT 1)
          ORDER BY n.nth LIMIT 1";
    /// Returns the shards of buckets, in their order.
    fn shards_of_values(bucket_values: &[&str]) -> Vec<i64> = [Latest OneShard]
        "SELECT get_shard_id_for_distribution_column('claims.claims', n.value)
           FROM unnest(:bucket_values) WITH ORDINALITY AS n (value, nth) ORDER BY n.nth";
    pub(super) fn shard_of_lease(lease: Uuid) -> Option<String> = [Latest OneShard]
        "SELECT get_shard_id_for_distribution_column('claims.claim_leases', :lease)::text";
    /// Returns the shards of outcomes, in the order of their leases.
    pub(super) fn shards_of_outcomes(leases: &[Uuid]) -> Vec<i64> = [Latest OneShard]
        "SELECT get_shard_id_for_distribution_column('claims.lease_outcomes', n.uuid)
           FROM unnest(:leases) WITH ORDINALITY AS n (uuid, nth) ORDER BY n.nth";
    fn shards_of_hashes(hashes: &[Uuid]) -> Vec<i64> = [Latest OneShard]
        "SELECT get_shard_id_for_distribution_column('claims.skeletons', n.hash)
           FROM unnest(:hashes) WITH ORDINALITY AS n (hash, nth) ORDER BY n.nth";
}

/// Returns the first of the uuids whose lease would be on the node of a bucket.
pub fn beside(connection: &Connection, bucket: &Bucket, drawn: &[Uuid]) -> Option<Uuid> {
    first_beside(connection, &bucket.value, drawn)
}

/// Groups buckets by their shards, in their order. A statement on the buckets of one group is sent to one node.
pub fn by_shard<'b, 'n>(connection: &Connection, buckets: &[&'b Bucket<'n>]) -> BTreeMap<i64, Vec<&'b Bucket<'n>>> {
    grouped(shards_of_buckets(connection, buckets).into_iter().zip(buckets.iter().copied()))
}

/// Returns the shards of buckets, in their order.
pub(super) fn shards_of_buckets(connection: &Connection, buckets: &[&Bucket]) -> Vec<i64> {
    shards_of_values(connection, &buckets.iter().map(|bucket| &*bucket.value).collect::<Vec<_>>())
}

/// Groups rows by their shards, in their order.
pub(super) fn grouped<T>(rows: impl Iterator<Item = (i64, T)>) -> BTreeMap<i64, Vec<T>> {
    let mut groups: BTreeMap<i64, Vec<T>> = BTreeMap::new();
    for (shard, row) in rows {
        groups.entry(shard).or_default().push(row);
    }
    groups
}

/// Returns the shards of skeletons, in their order.
pub(super) fn shards_of_skeletons(connection: &Connection, skeletons: impl Iterator<Item = Skeleton>) -> Vec<i64> {
    shards_of_hashes(connection, &skeletons.map(|skeleton| skeleton.hash).collect::<Vec<_>>())
}
