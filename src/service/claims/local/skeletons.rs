//! Statements on skeletons of names, for types that refuse confusable names: each skeleton belongs to one claim.

use claims_model::Bucket;
use claims_model::lookalike::{NewSkeleton, Skeleton};
use uuid::Uuid;

use crate::kernel::tables::Local;
use crate::service::claims::skeletons::{self as shared, Bearing, SkeletonChange, is_reserved_in};
use crate::service::claims::tables::SkeletonTables;
use pg::clock::Moment;
use pg::query::query;
use pg::spi::Connection;

query! {
    fn put(skeletons: &[Uuid], types: &[i32], names: &[&str]) -> usize = [Statement]
        "INSERT INTO claims.skeletons (skeleton, bucket_type, bucket_value) SELECT * FROM unnest(:skeletons, :types, :names)";
    fn reserve(skeletons: &[Uuid], types: &[i32], names: &[&str]) = [Statement]
        "INSERT INTO claims.skeletons (skeleton, bucket_type, bucket_value, reserved)
         SELECT n.skeleton, n.bucket_type, n.bucket_value, n.bucket_value
           FROM unnest(:skeletons, :types, :names) AS n (skeleton, bucket_type, bucket_value)";
    /// Deletes the skeletons of names that are kept back: of `name` itself, which this transaction has just taken from there, and of those whose time
    /// is over.
    fn drop_kept(skeleton: Uuid, bucket_type: i32, name: &str, now: Moment) = [Statement]
        "DELETE FROM claims.skeletons s
          WHERE s.skeleton = :skeleton AND s.bucket_type = :bucket_type AND s.reserved <> ''
            AND (s.reserved = :name
                 OR EXISTS (SELECT FROM claims.claims c
                             WHERE c.bucket_type = s.bucket_type AND c.bucket_value = s.reserved AND c.status = 5 AND c.available_at <= :now))";
    /// Deletes skeletons of names that nobody has claimed, or only `name`, which this transaction has just claimed. They are left over if
    /// claims were deleted by hand.
    fn drop_unclaimed(skeleton: Uuid, bucket_type: i32, name: &str) = [Statement]
        "DELETE FROM claims.skeletons s
          WHERE s.skeleton = :skeleton AND s.bucket_type = :bucket_type AND s.reserved = ''
            AND NOT EXISTS (SELECT FROM claims.claims c
                             WHERE c.bucket_type = s.bucket_type AND c.bucket_value IN (s.bucket_value, s.successor)
                               AND c.bucket_value <> :name)";
}

/// Takes skeletons for new names, or passes on those of names that are given up. Returns how many. A skeleton of another claim is
/// a unique violation. It does not check for reserved names.
fn take(connection: &Connection, skeletons: &[NewSkeleton]) -> usize {
    let (passed_on, new): (Vec<&NewSkeleton>, Vec<&NewSkeleton>) =
        skeletons.iter().partition(|new| new.predecessor.is_some());
    let mut taken = 0;
    if !new.is_empty() {
        let new: Vec<_> = new.iter().map(|new| (new.skeleton, new.bucket)).collect();
        let (skeletons, types, names) = shared::columns(&new);
        taken += put(connection, &skeletons, &types, &names);
    }
    if !passed_on.is_empty() {
        taken += shared::pass_on(connection, &passed_on);
    }
    taken
}

impl SkeletonTables for Local {
    fn take_skeletons(&self, connection: &Connection, new: &[NewSkeleton], heals: bool) -> usize {
        if heals {
            new.iter().for_each(|new| {
                drop_kept(connection, new.skeleton.hash, new.skeleton.bucket_type, &new.bucket.value, Moment::now());
            });
            new.iter().filter(|new| new.predecessor.is_none()).for_each(|new| drop_stale(connection, new));
        }
        let taken = take(connection, new);
        let is_reserved = |new: &&NewSkeleton| is_reserved_in(c"skeletons", new.skeleton, heals);
        taken - new.iter().filter(is_reserved).count().min(taken)
    }

    fn put_skeletons(&self, connection: &Connection, skeletons: &[(Skeleton, &Bucket)], bearing: Bearing) {
        let (skeletons, types, names) = shared::columns(skeletons);
        match bearing {
            _ if skeletons.is_empty() => {}
            Bearing::Claimed => {
                put(connection, &skeletons, &types, &names);
            }
            Bearing::Reserved => reserve(connection, &skeletons, &types, &names),
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
    drop_unclaimed(connection, new.skeleton.hash, new.skeleton.bucket_type, &new.bucket.value);
}
