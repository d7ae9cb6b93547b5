//! Statements on skeletons of names, for types that refuse confusable names: each skeleton belongs to one claim.

use claims_model::Bucket;
use claims_model::lookalike::{NewSkeleton, Skeleton};

use super::door::Local;
use crate::tables::door::SkeletonTables;
use crate::tables::rows::skeletons::{Bearing, SkeletonChange};
use crate::tables::shared::skeletons::{self as shared, is_reserved_in};
use pg::spi::{Connection, Value, View};
use pg::statement::statement;
use pg::uuid::pg_uuid;

statement! {
    TAKE(UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID) =
        "INSERT INTO claims.skeletons (skeleton, bucket_type, bucket_value) SELECT * FROM unnest($1, $2, $3)";
    RESERVE(UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID) =
        "INSERT INTO claims.skeletons (skeleton, bucket_type, bucket_value, reserved)
         SELECT n.skeleton, n.bucket_type, n.bucket_value, n.bucket_value FROM unnest($1, $2, $3) AS n (skeleton, bucket_type, bucket_value)";
    /// Deletes skeletons of names that nobody has claimed, or only name $3, which this transaction has just claimed. They are
    /// left over if claims were deleted by hand.
    DROP_STALE(UUIDOID, INT4OID, TEXTOID) =
        "DELETE FROM claims.skeletons s
          WHERE s.skeleton = $1 AND s.bucket_type = $2 AND s.reserved = ''
            AND NOT EXISTS (SELECT FROM claims.claims c
                             WHERE c.bucket_type = s.bucket_type AND c.bucket_value IN (s.bucket_value, s.successor)
                               AND c.bucket_value <> $3)";
}

/// Takes skeletons for new names, or passes on those of names that are given up. Returns how many. A skeleton of another claim is
/// a unique violation. It does not check for reserved names.
fn take(connection: &Connection, skeletons: &[NewSkeleton]) -> usize {
    let (passed_on, new): (Vec<&NewSkeleton>, Vec<&NewSkeleton>) =
        skeletons.iter().partition(|new| new.predecessor.is_some());
    let mut taken = 0;
    if !new.is_empty() {
        let new: Vec<_> = new.iter().map(|new| (new.skeleton, new.bucket)).collect();
        taken += connection.run(&TAKE, View::Statement, shared::arrays(&new)).count();
    }
    if !passed_on.is_empty() {
        taken += shared::pass_on(connection, &passed_on);
    }
    taken
}

impl SkeletonTables for Local {
    fn take_skeletons(&self, connection: &Connection, new: &[NewSkeleton], heals: bool) -> usize {
        if heals {
            new.iter().filter(|new| new.predecessor.is_none()).for_each(|new| drop_stale(connection, new));
        }
        let taken = take(connection, new);
        let is_reserved = |new: &&NewSkeleton| is_reserved_in(c"skeletons", new.skeleton, heals);
        taken - new.iter().filter(is_reserved).count().min(taken)
    }

    fn put_skeletons(&self, connection: &Connection, skeletons: &[(Skeleton, &Bucket)], bearing: Bearing) {
        let statement = match bearing {
            Bearing::Claimed => &TAKE,
            Bearing::Reserved => &RESERVE,
        };
        if !skeletons.is_empty() {
            connection.run(statement, View::Statement, shared::arrays(skeletons));
        }
    }

    fn change_skeletons(&self, connection: &Connection, change: SkeletonChange, skeletons: &[(Skeleton, &Bucket)]) {
        if !skeletons.is_empty() {
            shared::change(connection, change, skeletons);
        }
    }
}

/// Frees the skeleton of a new name, if no other name with this skeleton is claimed.
fn drop_stale(connection: &Connection, new: &NewSkeleton) {
    let skeleton = new.skeleton;
    let values: [Value; 3] = [pg_uuid(skeleton.hash).into(), skeleton.bucket_type.into(), (&*new.bucket.value).into()];
    connection.run(&DROP_STALE, View::Statement, values);
}
