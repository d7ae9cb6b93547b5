//! Probes for other open transactions at distributed rows, in the index of a shard on its node.

use std::collections::HashSet;

use claims_model::Bucket;
use claims_model::lookalike::Skeleton;
use uuid::Uuid;

use super::cluster::Citus;
use super::keys::{by_shard, grouped, shard_of_lease, shards_of_skeletons};
use crate::service::claims::{EndedLease, Key, KeyTables};
use pg::query::query;
use pg::spi::Connection;

// These queries read a row of one shard, so Citus sends all of each to the node of the shard, including the function call.
query! {
    fn buckets_in_flight(table: &str, values: &[&str], types: &[i32], first_value: &str, first_type: i32) -> Option<Vec<i32>> = [Latest Anywhere]
        "SELECT claims.buckets_in_flight(:table, :values, :types)
           FROM (SELECT count(*) FROM claims.claims WHERE bucket_value = :first_value AND bucket_type = :first_type) here";
    fn lease_in_flight(table: &str, lease: Uuid) -> bool = [Latest Anywhere]
        "SELECT claims.is_lease_in_flight(:table, :lease) FROM (SELECT count(*) FROM claims.claim_leases WHERE uuid = :lease) here";
    fn count_in_flight(table: &str, hashes: &[Uuid], types: &[i32], first_hash: Uuid, first_type: i32) -> i64 = [Latest Anywhere]
        "SELECT (SELECT count(*) FROM unnest(:hashes, :types) AS n (hash, type) WHERE claims.is_look_in_flight(:table, n.hash, n.type))
           FROM (SELECT count(*) FROM claims.skeletons WHERE skeleton = :first_hash AND bucket_type = :first_type) here";
    fn count_reserved_in(table: &str, hashes: &[Uuid], types: &[i32], first_hash: Uuid, first_type: i32, waits: bool) -> i64 = [Latest Anywhere]
        "SELECT (SELECT count(*) FROM unnest(:hashes, :types) AS n (hash, type) WHERE claims.is_look_reserved(:table, n.hash, n.type, :waits))
           FROM (SELECT count(*) FROM claims.skeletons WHERE skeleton = :first_hash AND bucket_type = :first_type) here";
}

/// Returns those of the buckets of one shard that another open transaction has written or locked.
fn in_flight_in<'b>(connection: &Connection, shard: i64, buckets: &[&'b Bucket<'b>]) -> Vec<&'b Bucket<'b>> {
    let Some(first) = buckets.first() else { return Vec::new() };
    let (values, types): (Vec<&str>, Vec<i32>) =
        buckets.iter().map(|bucket| (&*bucket.value, bucket.bucket_type)).unzip();
    let table = format!("claims_{shard}");
    let positions = buckets_in_flight(connection, &table, &values, &types, &first.value, first.bucket_type);
    let at = |position: i32| buckets.get(usize::try_from(position).ok()?.checked_sub(1)?).copied();
    positions.unwrap_or_default().into_iter().filter_map(at).collect()
}

/// Returns whether another open transaction has written or locked the row of a lease.
fn is_lease_in_flight(connection: &Connection, lease: Uuid) -> bool {
    let shard = shard_of_lease(connection, lease);
    shard.is_some_and(|shard| lease_in_flight(connection, &format!("claim_leases_{shard}"), lease))
}

/// Returns whether another open transaction has written or locked a skeleton.
fn is_skeleton_in_flight(connection: &Connection, skeleton: Skeleton) -> bool {
    let count = |table: &str, hashes: &[Uuid], types: &[i32]| {
        count_in_flight(connection, table, hashes, types, hashes[0], types[0])
    };
    count_skeletons(connection, &[skeleton], count) > 0
}

/// Returns how many of these skeletons a reserved name has, or one that another open transaction reserves or unreserves. With
/// `waits`, waits for these transactions.
pub fn count_reserved(connection: &Connection, skeletons: &[Skeleton], waits: bool) -> usize {
    let count = |table: &str, hashes: &[Uuid], types: &[i32]| {
        count_reserved_in(connection, table, hashes, types, hashes[0], types[0], waits)
    };
    count_skeletons(connection, skeletons, count)
}

/// Counts skeletons by one statement for each shard, on its node. `count` gets the table of the shard, and the hashes and types of
/// skeletons.
fn count_skeletons(
    connection: &Connection,
    skeletons: &[Skeleton],
    count: impl Fn(&str, &[Uuid], &[i32]) -> i64,
) -> usize {
    let shards = shards_of_skeletons(connection, skeletons.iter().copied());
    let of_shard = |(shard, part): (i64, Vec<Skeleton>)| {
        let (hashes, types): (Vec<Uuid>, Vec<i32>) =
            part.iter().map(|skeleton| (skeleton.hash, skeleton.bucket_type)).unzip();
        usize::try_from(count(&format!("skeletons_{shard}"), &hashes, &types)).unwrap_or(0)
    };
    grouped(shards.into_iter().zip(skeletons.iter().copied())).into_iter().map(of_shard).sum()
}

impl KeyTables for Citus {
    fn contended(&self, connection: &Connection, key: Key) -> bool {
        match key {
            Key::Lease(lease) => is_lease_in_flight(connection, lease),
            Key::Bucket(bucket) => self.contended_buckets(connection, &[bucket]) == [true],
            Key::Skeleton(skeleton) => is_skeleton_in_flight(connection, skeleton),
        }
    }

    fn contended_buckets(&self, connection: &Connection, buckets: &[&Bucket]) -> Vec<bool> {
        let in_flight: HashSet<&Bucket> = by_shard(connection, buckets)
            .into_iter()
            .flat_map(|(shard, part)| in_flight_in(connection, shard, &part))
            .collect();
        buckets.iter().map(|bucket| in_flight.contains(bucket)).collect()
    }

    fn is_any_contended(&self, connection: &Connection, leases: &[EndedLease]) -> bool {
        let held = leases.iter().map(|lease| &lease.held);
        let buckets: Vec<&Bucket> = held
            .flat_map(|held| {
                let replaced = held.replaces.iter().map(|claim| &claim.bucket);
                held.creates.iter().chain(replaced).chain(held.destroys.iter())
            })
            .collect();
        self.contended_buckets(connection, &buckets).contains(&true)
    }
}
