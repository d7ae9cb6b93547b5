//! Probes for other open transactions at distributed rows, in the index of a shard on its node.

use std::collections::HashSet;

use claims_model::Bucket;
use claims_model::lookalike::Skeleton;
use uuid::Uuid;

use super::door::Citus;
use super::keys::{by_shard, grouped, shard_of_lease, shards_of_skeletons};
use crate::tables::door::{EndedLease, Key, KeyTables};
use pg::spi::{Connection, Value};
use pg::uuid::{pg_uuid, pg_uuids};

/// Returns those of the buckets of one shard that another open transaction has written or locked.
fn buckets_in_flight<'b>(connection: &Connection, shard: i64, buckets: &[&'b Bucket<'b>]) -> Vec<&'b Bucket<'b>> {
    let Some(first) = buckets.first() else { return Vec::new() };
    // This query reads a row of one shard, so Citus sends all of it to the node of the shard, including the function call.
    let text = format!(
        "SELECT claims.buckets_in_flight('claims_{shard}', $2, $3)
           FROM (SELECT count(*) FROM claims.claims WHERE bucket_value = $1 AND bucket_type = $4) here"
    );
    let values: Vec<&str> = buckets.iter().map(|bucket| &*bucket.value).collect();
    let types: Vec<i32> = buckets.iter().map(|bucket| bucket.bucket_type).collect();
    let arguments: [Value; 4] = [(&*first.value).into(), values.into(), types.into(), first.bucket_type.into()];
    let positions: Vec<i32> = connection.run_text_now(&text, arguments).first(|row| row.must(1)).unwrap_or_default();
    let at = |position: i32| buckets.get(usize::try_from(position).ok()?.checked_sub(1)?).copied();
    positions.into_iter().filter_map(at).collect()
}

/// Returns whether another open transaction has written or locked the row of a lease.
fn is_lease_in_flight(connection: &Connection, lease: Uuid) -> bool {
    let Some(shard) = shard_of_lease(connection, lease) else { return false };
    let text = format!(
        "SELECT claims.is_lease_in_flight('claim_leases_{shard}', $1)
           FROM (SELECT count(*) FROM claims.claim_leases WHERE uuid = $1) here"
    );
    connection.run_text_now(&text, [pg_uuid(lease).into()]).first(|row| row.must(1)).unwrap_or(false)
}

/// Returns whether another open transaction has written or locked a skeleton.
fn is_skeleton_in_flight(connection: &Connection, skeleton: Skeleton) -> bool {
    count_skeletons(connection, &[skeleton], |shard| format!("is_look_in_flight('{shard}', n.hash, n.type)")) > 0
}

/// Returns how many of these skeletons a reserved name has, or one that another open transaction reserves or unreserves. With
/// `waits`, waits for these transactions.
pub fn count_reserved(connection: &Connection, skeletons: &[Skeleton], waits: bool) -> usize {
    count_skeletons(connection, skeletons, |shard| format!("is_look_reserved('{shard}', n.hash, n.type, {waits})"))
}

/// Counts the skeletons for which a function of the extension returns true, by one statement for each shard, on its node. `call` gets the
/// name of the shard.
fn count_skeletons(connection: &Connection, skeletons: &[Skeleton], call: impl Fn(&str) -> String) -> usize {
    let shards = shards_of_skeletons(connection, skeletons.iter().copied());
    let of_shard = |(shard, part): (i64, Vec<Skeleton>)| {
        let text = format!(
            "SELECT (SELECT count(*) FROM unnest($3, $4) AS n (hash, type) WHERE claims.{})
               FROM (SELECT count(*) FROM claims.skeletons WHERE skeleton = $1 AND bucket_type = $2) here",
            call(&format!("skeletons_{shard}"))
        );
        let types: Vec<i32> = part.iter().map(|skeleton| skeleton.bucket_type).collect();
        let values: [Value; 4] = [
            pg_uuid(part[0].hash).into(),
            part[0].bucket_type.into(),
            pg_uuids(part.iter().map(|skeleton| skeleton.hash)),
            types.into(),
        ];
        connection.run_text_now(&text, values).first(|row| row.must::<i64>(1)).map_or(0, |count| count as usize)
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
            .flat_map(|(shard, part)| buckets_in_flight(connection, shard, &part))
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
