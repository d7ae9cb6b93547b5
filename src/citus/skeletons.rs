//! Statements on distributed skeletons, each for the rows of one shard.

use claims_model::Bucket;
use claims_model::lookalike::{NewSkeleton, Skeleton};
use uuid::Uuid;

use super::cluster::Citus;
use super::in_flight::count_reserved;
use super::keys::{grouped, shards_of_skeletons};
use crate::service::claims::{Bearing, SkeletonChange, SkeletonTables, skeletons as shared};
use pg::clock::Moment;
use pg::query::{query, record};
use pg::spi::{Connection, Value};

record! {
    struct BearerRow { bucket_value: String, successor: Option<String> }
}

query! {
    fn take(skeleton: Uuid, bucket_type: i32, bucket_value: &str) = [Statement OneShard]
        "INSERT INTO claims.skeletons (skeleton, bucket_type, bucket_value) VALUES (:skeleton, :bucket_type, :bucket_value)";
    fn bearer(skeleton: Uuid, bucket_type: i32) -> Option<BearerRow> = [Statement OneShard]
        "SELECT s.bucket_value, s.successor FROM claims.skeletons s
          WHERE s.skeleton = :skeleton AND s.bucket_type = :bucket_type AND s.reserved = '' FOR UPDATE";
    fn is_claimed(bucket_type: i32, bucket_value: &str) -> Option<i32> = [Statement OneShard]
        "SELECT 1 FROM claims.claims c WHERE c.bucket_value = :bucket_value AND c.bucket_type = :bucket_type";
    fn is_over(bucket_type: i32, bucket_value: &str, now: Moment) -> Option<i32> = [Statement OneShard]
        "SELECT 1 FROM claims.claims c
          WHERE c.bucket_value = :bucket_value AND c.bucket_type = :bucket_type AND c.status = 5 AND c.available_at <= :now";
    fn drop_claimed(skeleton: Uuid, bucket_type: i32) = [Statement OneShard]
        "DELETE FROM claims.skeletons s WHERE s.skeleton = :skeleton AND s.bucket_type = :bucket_type AND s.reserved = ''";
}

/// Groups skeletons by their shards.
fn by_shard<'b>(
    connection: &Connection,
    skeletons: &[(Skeleton, &'b Bucket<'b>)],
) -> Vec<Vec<(Skeleton, &'b Bucket<'b>)>> {
    let shards = shards_of_skeletons(connection, skeletons.iter().map(|(skeleton, _)| *skeleton));
    grouped(shards.into_iter().zip(skeletons.iter().copied())).into_values().collect()
}

/// Inserts skeletons of one shard.
fn put(connection: &Connection, skeletons: &[(Skeleton, &Bucket)], bearing: Bearing) {
    let row = |nth: usize| format!("(${}, ${}, ${}, ${})", 4 * nth + 1, 4 * nth + 2, 4 * nth + 3, 4 * nth + 4);
    let text = format!(
        "INSERT INTO claims.skeletons (skeleton, bucket_type, bucket_value, reserved) VALUES {}",
        (0..skeletons.len()).map(row).collect::<Vec<_>>().join(", ")
    );
    let all_values = skeletons.iter().flat_map(|(skeleton, bucket)| {
        let reserved = match bearing {
            Bearing::Claimed => "",
            Bearing::Reserved => &*bucket.value,
        };
        let values: [Value; 4] =
            [skeleton.hash.into(), skeleton.bucket_type.into(), (&*bucket.value).into(), reserved.into()];
        values
    });
    connection.run_text(&text, all_values);
}

/// Number of rows that one statement inserts.
const ROWS: usize = 200;

impl SkeletonTables for Citus {
    fn put_skeletons(&self, connection: &Connection, skeletons: &[(Skeleton, &Bucket)], bearing: Bearing) {
        if let ([(skeleton, bucket)], Bearing::Claimed) = (skeletons, bearing) {
            return take(connection, skeleton.hash, skeleton.bucket_type, &bucket.value);
        }
        for part in by_shard(connection, skeletons) {
            part.chunks(ROWS).for_each(|rows| put(connection, rows, bearing));
        }
    }

    fn take_skeletons(&self, connection: &Connection, new: &[NewSkeleton], heals: bool) -> usize {
        let (passed_on, fresh): (Vec<&NewSkeleton>, Vec<&NewSkeleton>) =
            new.iter().partition(|new| new.predecessor.is_some());
        if heals {
            heal(connection, new);
        }
        let fresh: Vec<_> = fresh.iter().map(|new| (new.skeleton, new.bucket)).collect();
        self.put_skeletons(connection, &fresh, Bearing::Claimed);
        let passed_on = grouped(
            shards_of_skeletons(connection, passed_on.iter().map(|new| new.skeleton)).into_iter().zip(passed_on),
        );
        let taken = fresh.len() + passed_on.into_values().map(|part| shared::pass_on(connection, &part)).sum::<usize>();
        let skeletons: Vec<Skeleton> = new.iter().map(|new| new.skeleton).collect();
        taken - count_reserved(connection, &skeletons, heals).min(taken)
    }

    fn change_skeletons(&self, connection: &Connection, change: SkeletonChange, skeletons: &[(Skeleton, &Bucket)]) {
        by_shard(connection, skeletons).iter().for_each(|part| shared::change(connection, change, part));
    }
}

/// Frees skeletons of new names from names that no longer refuse them. One look-up finds both kinds.
fn heal(connection: &Connection, new: &[NewSkeleton]) {
    let skeletons: Vec<Skeleton> = new.iter().map(|new| new.skeleton).collect();
    let taken = shared::bearers(connection, &skeletons);
    for new in new {
        let Some(bearers) = taken.get(&new.skeleton) else { continue };
        drop_kept(connection, new, &bearers.reserved);
        if bearers.bearer.is_some() && new.predecessor.is_none() {
            drop_one_if_stale(connection, new);
        }
    }
}

/// Deletes the skeletons of names that are kept back: of the new name itself, which this transaction has just taken from there, and of those
/// whose time is over.
fn drop_kept(connection: &Connection, new: &NewSkeleton, reserved: &[Bucket]) {
    let is_over = |name: &Bucket| is_over(connection, name.bucket_type, &name.value, Moment::now()).is_some();
    let gone = reserved.iter().filter(|name| *name == new.bucket || is_over(name));
    let gone: Vec<_> = gone.map(|name| (new.skeleton, name)).collect();
    if !gone.is_empty() {
        shared::change(connection, SkeletonChange::Unreserve, &gone);
    }
}

/// Frees the skeleton of a new name, if no other name with this skeleton is claimed.
fn drop_one_if_stale(connection: &Connection, new: &NewSkeleton) {
    let Skeleton { hash, bucket_type } = new.skeleton;
    let Some(BearerRow { bucket_value, successor }) = bearer(connection, hash, bucket_type) else { return };
    let mut others = [Some(bucket_value), successor].into_iter().flatten().filter(|name| *name != *new.bucket.value);
    if !others.any(|name| is_claimed(connection, bucket_type, &name).is_some()) {
        drop_claimed(connection, hash, bucket_type);
    }
}
