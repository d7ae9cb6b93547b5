//! Statements on distributed skeletons, each for the rows of one shard.

use claims_model::Bucket;
use claims_model::lookalike::{NewSkeleton, Skeleton};

use super::door::Citus;
use super::in_flight::count_reserved;
use super::keys::{grouped, shards_of_skeletons};
use crate::tables::door::SkeletonTables;
use crate::tables::rows::skeletons::{Bearing, SkeletonChange};
use crate::tables::shared::skeletons as shared;
use pg::spi::{Connection, Value, View};
use pg::statement::shard_statement;
use pg::uuid::pg_uuid;

shard_statement! {
    TAKE(UUIDOID, INT4OID, TEXTOID) =
        "INSERT INTO claims.skeletons (skeleton, bucket_type, bucket_value) VALUES ($1, $2, $3)";
    BEARERS(UUIDOID, INT4OID) =
        "SELECT s.bucket_value, s.successor FROM claims.skeletons s
          WHERE s.skeleton = $1 AND s.bucket_type = $2 AND s.reserved = '' FOR UPDATE";
    IS_CLAIMED(INT4OID, TEXTOID) = "SELECT 1 FROM claims.claims c WHERE c.bucket_value = $2 AND c.bucket_type = $1";
    DROP(UUIDOID, INT4OID) = "DELETE FROM claims.skeletons s WHERE s.skeleton = $1 AND s.bucket_type = $2 AND s.reserved = ''";
}

fn values(skeleton: Skeleton, bucket: &Bucket) -> [Value; 3] {
    [pg_uuid(skeleton.hash).into(), skeleton.bucket_type.into(), (&*bucket.value).into()]
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
        values(*skeleton, bucket).into_iter().chain([reserved.into()])
    });
    connection.run_text(&text, all_values);
}

/// Number of rows that one statement inserts.
const ROWS: usize = 200;

impl SkeletonTables for Citus {
    fn put_skeletons(&self, connection: &Connection, skeletons: &[(Skeleton, &Bucket)], bearing: Bearing) {
        if let ([(skeleton, bucket)], Bearing::Claimed) = (skeletons, bearing) {
            connection.run(&TAKE, View::Statement, values(*skeleton, bucket));
            return;
        }
        for part in by_shard(connection, skeletons) {
            part.chunks(ROWS).for_each(|rows| put(connection, rows, bearing));
        }
    }

    fn take_skeletons(&self, connection: &Connection, new: &[NewSkeleton], heals: bool) -> usize {
        let (passed_on, fresh): (Vec<&NewSkeleton>, Vec<&NewSkeleton>) =
            new.iter().partition(|new| new.predecessor.is_some());
        if heals && !fresh.is_empty() {
            drop_stale(connection, &fresh);
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

/// Frees those skeletons of new names that other names have without being claimed.
fn drop_stale(connection: &Connection, new: &[&NewSkeleton]) {
    let skeletons: Vec<Skeleton> = new.iter().map(|new| new.skeleton).collect();
    let taken = shared::bearers(connection, &skeletons);
    new.iter().filter(|new| taken.contains_key(&new.skeleton)).for_each(|new| drop_one_if_stale(connection, new));
}

/// Frees the skeleton of a new name, if no other name with this skeleton is claimed.
fn drop_one_if_stale(connection: &Connection, new: &NewSkeleton) {
    let key = || -> [Value; 2] { [pg_uuid(new.skeleton.hash).into(), new.skeleton.bucket_type.into()] };
    let bearers =
        connection.run(&BEARERS, View::Statement, key()).first(|row| (row.get::<String>(1), row.get::<String>(2)));
    let Some((bearer, successor)) = bearers else { return };
    let is_claimed = |name: &String| {
        let bucket: [Value; 2] = [new.skeleton.bucket_type.into(), name.as_str().into()];
        connection.run(&IS_CLAIMED, View::Statement, bucket).count() > 0
    };
    let mut others = [bearer, successor].into_iter().flatten().filter(|name| *name != *new.bucket.value);
    if !others.any(|name| is_claimed(&name)) {
        connection.run(&DROP, View::Statement, key());
    }
}
