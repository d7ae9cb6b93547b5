//! Statements on distributed skeletons, each for one row of one shard.

use claims_model::Bucket;
use claims_model::lookalike::{NewSkeleton, Skeleton};

use super::door::Citus;
use super::in_flight::is_skeleton_reserved;
use crate::tables::door::SkeletonTables;
use crate::tables::rows::skeletons::{Bearing, SkeletonChange};
use pg::spi::{Connection, Value, View};
use pg::statement::shard_statement;
use pg::uuid::pg_uuid;

shard_statement! {
    TAKE(UUIDOID, INT4OID, TEXTOID) =
        "INSERT INTO claims.skeletons (skeleton, bucket_type, bucket_value) VALUES ($1, $2, $3)";
    UNRESERVE(UUIDOID, INT4OID, TEXTOID) =
        "DELETE FROM claims.skeletons s WHERE s.skeleton = $1 AND s.bucket_type = $2 AND s.reserved = $3";
    PASS_ON(UUIDOID, INT4OID, TEXTOID, TEXTOID) =
        "UPDATE claims.skeletons s SET successor = $4
          WHERE s.skeleton = $1 AND s.bucket_type = $2 AND s.bucket_value = $3 AND s.reserved = '' AND s.successor IS NULL";
    BEARERS(UUIDOID, INT4OID) =
        "SELECT s.bucket_value, s.successor FROM claims.skeletons s
          WHERE s.skeleton = $1 AND s.bucket_type = $2 AND s.reserved = '' FOR UPDATE";
    IS_CLAIMED(INT4OID, TEXTOID) = "SELECT 1 FROM claims.claims c WHERE c.bucket_value = $2 AND c.bucket_type = $1";
    DROP(UUIDOID, INT4OID) = "DELETE FROM claims.skeletons s WHERE s.skeleton = $1 AND s.bucket_type = $2 AND s.reserved = ''";
    SUCCEED(UUIDOID, INT4OID, TEXTOID) =
        "UPDATE claims.skeletons s SET bucket_value = s.successor, successor = NULL
          WHERE s.skeleton = $1 AND s.bucket_type = $2 AND s.successor = $3";
    STAY(UUIDOID, INT4OID, TEXTOID) =
        "UPDATE claims.skeletons s SET successor = NULL WHERE s.skeleton = $1 AND s.bucket_type = $2 AND s.successor = $3";
    FREE(UUIDOID, INT4OID, TEXTOID) =
        "DELETE FROM claims.skeletons s WHERE s.skeleton = $1 AND s.bucket_type = $2 AND s.bucket_value = $3 AND s.reserved = ''";
}

fn values(skeleton: Skeleton, bucket: &Bucket) -> [Value; 3] {
    [pg_uuid(skeleton.hash).into(), skeleton.bucket_type.into(), (&*bucket.value).into()]
}

/// Takes a skeleton for a new name, or passes on the skeleton of the name that is given up. Returns 1 if it did. A skeleton of
/// another claim is a unique violation.
fn take(connection: &Connection, new: &NewSkeleton) -> usize {
    match new.predecessor {
        None => connection.run(&TAKE, View::Statement, values(new.skeleton, new.bucket)).count(),
        Some(predecessor) => {
            let successor: Value = (&*new.bucket.value).into();
            let values = values(new.skeleton, predecessor).into_iter().chain([successor]);
            connection.run(&PASS_ON, View::Statement, values).count()
        }
    }
}

/// Number of rows that one statement inserts.
const ROWS: usize = 200;

impl SkeletonTables for Citus {
    fn put_skeletons(&self, connection: &Connection, skeletons: &[(Skeleton, &Bucket)], bearing: Bearing) {
        for part in skeletons.chunks(ROWS) {
            let row = |nth: usize| format!("(${}, ${}, ${}, ${})", 4 * nth + 1, 4 * nth + 2, 4 * nth + 3, 4 * nth + 4);
            let text = format!(
                "INSERT INTO claims.skeletons (skeleton, bucket_type, bucket_value, reserved) VALUES {}",
                (0..part.len()).map(row).collect::<Vec<_>>().join(", ")
            );
            let all_values = part.iter().flat_map(|(skeleton, bucket)| {
                let reserved = match bearing {
                    Bearing::Claimed => "",
                    Bearing::Reserved => &*bucket.value,
                };
                values(*skeleton, bucket).into_iter().chain([reserved.into()])
            });
            connection.run_text(&text, all_values);
        }
    }

    fn take_skeletons(&self, connection: &Connection, new: &[NewSkeleton], heals: bool) -> usize {
        if heals {
            new.iter().filter(|new| new.predecessor.is_none()).for_each(|new| drop_stale(connection, new));
        }
        let take =
            |new: &&NewSkeleton| take(connection, new) == 1 && !is_skeleton_reserved(connection, new.skeleton, heals);
        new.iter().filter(take).count()
    }

    fn change_skeletons(&self, connection: &Connection, change: SkeletonChange, skeletons: &[(Skeleton, &Bucket)]) {
        let statement = match change {
            SkeletonChange::Unreserve => &UNRESERVE,
            SkeletonChange::Free => &FREE,
            SkeletonChange::PassOn => &SUCCEED,
            SkeletonChange::Keep => &STAY,
        };
        for (skeleton, bucket) in skeletons {
            connection.run(statement, View::Statement, values(*skeleton, bucket));
        }
    }
}

/// Frees the skeleton of a new name, if no other name with this skeleton is claimed.
fn drop_stale(connection: &Connection, new: &NewSkeleton) {
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
