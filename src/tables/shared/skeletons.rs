//! Statements on skeletons that work for local and distributed tables.

use std::collections::HashMap;
use std::ffi::CStr;

use claims_model::Bucket;
use claims_model::lookalike::{NewSkeleton, Skeleton};

use crate::tables::rows::known_or_raised;
use crate::tables::rows::skeletons::{Bearers, SkeletonChange};
use pg::in_flight::{self, FoundRow};
use pg::index::{KeyPart, KeyValue};
use pg::spi::{Connection, Value, View};
use pg::statement::shared_statement;
use pg::table::TableRow;
use pg::uuid::{from_pg_uuid, pg_uuid, pg_uuids};

/// Joins skeletons `s` with the rows `n` of arrays, of which $1 has the skeletons.
macro_rules! listed {
    ($columns:literal, $arrays:literal) => {
        concat!(
            "(SELECT * FROM unnest(",
            $arrays,
            ") AS n (",
            $columns,
            ") OFFSET 0) n WHERE s.skeleton = ANY ($1) AND s.skeleton = n.skeleton AND s.bucket_type = n.bucket_type"
        )
    };
}

shared_statement! {
    UNRESERVE(UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID) = concat!(
        "DELETE FROM claims.skeletons s USING ",
        listed!("skeleton, bucket_type, bucket_value", "$1, $2, $3"), " AND s.reserved = n.bucket_value");
    /// Makes names $4 the successors of names $3: they get the skeletons when their lease commits.
    PASS_ON(UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID, TEXTARRAYOID) = concat!(
        "UPDATE claims.skeletons s SET successor = n.successor FROM ",
        listed!("skeleton, bucket_type, bucket_value, successor", "$1, $2, $3, $4"),
        " AND s.bucket_value = n.bucket_value AND s.reserved = '' AND s.successor IS NULL");
    SUCCEED(UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID) = concat!(
        "UPDATE claims.skeletons s SET bucket_value = s.successor, successor = NULL FROM ",
        listed!("skeleton, bucket_type, bucket_value", "$1, $2, $3"), " AND s.successor = n.bucket_value");
    STAY(UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID) = concat!(
        "UPDATE claims.skeletons s SET successor = NULL FROM ",
        listed!("skeleton, bucket_type, bucket_value", "$1, $2, $3"), " AND s.successor = n.bucket_value");
    FREE(UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID) = concat!(
        "DELETE FROM claims.skeletons s USING ",
        listed!("skeleton, bucket_type, bucket_value", "$1, $2, $3"), " AND s.bucket_value = n.bucket_value AND s.reserved = ''");
    BEARERS(UUIDARRAYOID) =
        "SELECT s.bucket_type, s.skeleton, s.bucket_value, s.successor, s.reserved <> '' FROM claims.skeletons s WHERE s.skeleton = ANY ($1)";
}

/// Returns the skeletons, types and names as arrays.
pub fn arrays(skeletons: &[(Skeleton, &Bucket)]) -> [Value; 3] {
    [
        pg_uuids(skeletons.iter().map(|(skeleton, _)| skeleton.hash)),
        skeletons.iter().map(|(skeleton, _)| skeleton.bucket_type).collect::<Vec<_>>().into(),
        skeletons.iter().map(|(_, bucket)| &*bucket.value).collect::<Vec<_>>().into(),
    ]
}

/// Makes one change to each of several skeletons. If the tables are distributed, they are in one shard.
pub fn change(connection: &Connection, change: SkeletonChange, skeletons: &[(Skeleton, &Bucket)]) {
    let statement = match change {
        SkeletonChange::Unreserve => &UNRESERVE,
        SkeletonChange::Free => &FREE,
        SkeletonChange::PassOn => &SUCCEED,
        SkeletonChange::Keep => &STAY,
    };
    connection.run(statement, View::Statement, arrays(skeletons));
}

/// Passes skeletons on from names that are given up to new names. Returns how many. If the tables are distributed, they are in one shard.
pub fn pass_on(connection: &Connection, new: &[&NewSkeleton]) -> usize {
    let of = new.iter().filter_map(|new| Some((new.skeleton, new.predecessor?))).collect::<Vec<_>>();
    let successors: Vec<_> = new.iter().map(|new| &*new.bucket.value).collect();
    let values = arrays(&of).into_iter().chain([successors.into()]);
    connection.run(&PASS_ON, View::Statement, values).count()
}

/// Returns the names that have skeletons, as committed now. Takes no locks.
pub fn bearers(connection: &Connection, skeletons: &[Skeleton]) -> HashMap<Skeleton, Bearers> {
    let rows = connection.run(&BEARERS, View::Latest, [pg_uuids(skeletons.iter().map(|skeleton| skeleton.hash))]);
    let mut found: HashMap<Skeleton, Bearers> = HashMap::new();
    rows.map(|row| {
        let bucket_type: i32 = row.must(1);
        let bucket = |value: String| Bucket { bucket_type, value: value.into() };
        let bearers = found.entry(Skeleton { bucket_type, hash: from_pg_uuid(row.must(2)) }).or_default();
        let name = bucket(row.must(3));
        if row.must(5) {
            bearers.reserved.push(name);
        } else {
            (bearers.bearer, bearers.successor) = (Some(name), row.get::<String>(4).map(bucket));
        }
    });
    found
}

/// Returns whether a name with this skeleton is reserved now, under every isolation level, by the rows in a table, which is
/// `skeletons` or one of its shards. A reservation that another open transaction is making or ending counts, or is waited for. A
/// begin calls this after it has taken the skeleton: a reservation that it does not see comes later, and finds its claim.
pub fn is_reserved_in(table: &CStr, skeleton: Skeleton, waits: bool) -> bool {
    let is_reservation = |row: &TableRow| !row.must::<String>(c"reserved").is_empty();
    loop {
        match known_or_raised(in_flight::find_row(table, &key(skeleton), is_reservation), INDEX) {
            FoundRow::None => return false,
            FoundRow::WrittenBy(writer) if waits => writer.wait(),
            FoundRow::Row | FoundRow::WrittenBy(_) => return true,
        }
    }
}

/// Returns whether another open transaction has written or locked a skeleton, by its rows in a table, which is `skeletons` or one
/// of its shards.
pub fn is_in_flight_in(table: &CStr, skeleton: Skeleton) -> bool {
    known_or_raised(in_flight::is_any_in_flight(table, &key(skeleton)), INDEX)
}

const INDEX: &str = "claims.skeletons (skeleton, bucket_type, reserved)";

/// Returns the key that all rows of a skeleton share: the first columns of the primary key.
fn key(skeleton: Skeleton) -> [KeyPart<'static>; 2] {
    [
        KeyPart { column: c"skeleton", value: KeyValue::Uuid(pg_uuid(skeleton.hash)) },
        KeyPart { column: c"bucket_type", value: KeyValue::Int4(skeleton.bucket_type) },
    ]
}
