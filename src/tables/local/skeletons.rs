//! Statements on skeletons of names, for types that refuse confusable names: each skeleton belongs to one claim.

use std::thread::LocalKey;

use claims_model::Bucket;
use claims_model::lookalike::{NewSkeleton, Skeleton};

use super::door::Local;
use crate::tables::door::SkeletonTables;
use crate::tables::rows::skeletons::{Bearing, SkeletonChange};
use crate::tables::shared::skeletons::is_reserved_in;
use pg::spi::{Connection, Value, View};
use pg::statement::{Statement, statement};
use pg::uuid::{pg_uuid, pg_uuids};

macro_rules! listed {
    ($columns:literal, $arrays:literal) => {
        concat!(
            "(SELECT * FROM unnest(",
            $arrays,
            ") AS n (",
            $columns,
            ") OFFSET 0) n WHERE s.skeleton = n.skeleton AND s.bucket_type = n.bucket_type"
        )
    };
}

statement! {
    TAKE(UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID) =
        "INSERT INTO claims.skeletons (skeleton, bucket_type, bucket_value) SELECT * FROM unnest($1, $2, $3)";
    RESERVE(UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID) =
        "INSERT INTO claims.skeletons (skeleton, bucket_type, bucket_value, reserved)
         SELECT n.skeleton, n.bucket_type, n.bucket_value, n.bucket_value FROM unnest($1, $2, $3) AS n (skeleton, bucket_type, bucket_value)";
    UNRESERVE(UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID) = concat!(
        "DELETE FROM claims.skeletons s USING ",
        listed!("skeleton, bucket_type, bucket_value", "$1, $2, $3"), " AND s.reserved = n.bucket_value");
    /// Makes names $4 the successors of names $3: they get the skeletons when their lease commits.
    PASS_ON(UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID, TEXTARRAYOID) = concat!(
        "UPDATE claims.skeletons s SET successor = n.successor FROM ",
        listed!("skeleton, bucket_type, bucket_value, successor", "$1, $2, $3, $4"),
        " AND s.bucket_value = n.bucket_value AND s.reserved = '' AND s.successor IS NULL");
    /// Deletes skeletons of names that nobody has claimed, or only name $3, which this transaction has just claimed. They are
    /// left over if claims were deleted by hand.
    DROP_STALE(UUIDOID, INT4OID, TEXTOID) =
        "DELETE FROM claims.skeletons s
          WHERE s.skeleton = $1 AND s.bucket_type = $2 AND s.reserved = ''
            AND NOT EXISTS (SELECT FROM claims.claims c
                             WHERE c.bucket_type = s.bucket_type AND c.bucket_value IN (s.bucket_value, s.successor)
                               AND c.bucket_value <> $3)";
    SUCCEED(UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID) = concat!(
        "UPDATE claims.skeletons s SET bucket_value = s.successor, successor = NULL FROM ",
        listed!("skeleton, bucket_type, bucket_value", "$1, $2, $3"), " AND s.successor = n.bucket_value");
    STAY(UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID) = concat!(
        "UPDATE claims.skeletons s SET successor = NULL FROM ",
        listed!("skeleton, bucket_type, bucket_value", "$1, $2, $3"), " AND s.successor = n.bucket_value");
    FREE(UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID) = concat!(
        "DELETE FROM claims.skeletons s USING ",
        listed!("skeleton, bucket_type, bucket_value", "$1, $2, $3"), " AND s.bucket_value = n.bucket_value AND s.reserved = ''");
}

fn arrays(skeletons: &[(Skeleton, &Bucket)]) -> [Value; 3] {
    [
        pg_uuids(skeletons.iter().map(|(skeleton, _)| skeleton.hash)),
        skeletons.iter().map(|(skeleton, _)| skeleton.bucket_type).collect::<Vec<_>>().into(),
        skeletons.iter().map(|(_, bucket)| &*bucket.value).collect::<Vec<_>>().into(),
    ]
}

/// Takes skeletons for new names, or passes on those of names that are given up. Returns how many. A skeleton of another claim is
/// a unique violation. It does not check for reserved names.
fn take(connection: &Connection, skeletons: &[NewSkeleton]) -> usize {
    let (passed_on, new): (Vec<&NewSkeleton>, Vec<&NewSkeleton>) =
        skeletons.iter().partition(|new| new.predecessor.is_some());
    let mut taken = 0;
    if !new.is_empty() {
        let new: Vec<_> = new.iter().map(|new| (new.skeleton, new.bucket)).collect();
        taken += connection.run(&TAKE, View::Statement, arrays(&new)).count();
    }
    if !passed_on.is_empty() {
        let of = passed_on.iter().filter_map(|new| Some((new.skeleton, new.predecessor?))).collect::<Vec<_>>();
        let successors: Vec<_> = passed_on.iter().map(|new| &*new.bucket.value).collect();
        let values = arrays(&of).into_iter().chain([successors.into()]);
        taken += connection.run(&PASS_ON, View::Statement, values).count();
    }
    taken
}

/// Runs a statement on skeletons, if there are any.
fn write(connection: &Connection, statement: &'static LocalKey<Statement>, skeletons: &[(Skeleton, &Bucket)]) {
    if !skeletons.is_empty() {
        connection.run(statement, View::Statement, arrays(skeletons));
    }
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
        write(connection, statement, skeletons);
    }

    fn change_skeletons(&self, connection: &Connection, change: SkeletonChange, skeletons: &[(Skeleton, &Bucket)]) {
        let statement = match change {
            SkeletonChange::Unreserve => &UNRESERVE,
            SkeletonChange::Free => &FREE,
            SkeletonChange::PassOn => &SUCCEED,
            SkeletonChange::Keep => &STAY,
        };
        write(connection, statement, skeletons);
    }
}

/// Frees the skeleton of a new name, if no other name with this skeleton is claimed.
fn drop_stale(connection: &Connection, new: &NewSkeleton) {
    let skeleton = new.skeleton;
    let values: [Value; 3] = [pg_uuid(skeleton.hash).into(), skeleton.bucket_type.into(), (&*new.bucket.value).into()];
    connection.run(&DROP_STALE, View::Statement, values);
}
