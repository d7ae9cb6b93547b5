//! Rows of skeletons, and statements on them that work for local and distributed tables. Each skeleton has one row for a claim, and one for
//! each reserved name. The latter stays as long as the name is reserved, even if the claim is deleted.

use std::collections::HashMap;
use std::ffi::CStr;

use claims_model::Bucket;
use claims_model::lookalike::{NewSkeleton, Skeleton};
use uuid::Uuid;

use crate::kernel::error::known_or_raised;
use pg::in_flight::{self, FoundRow};
use pg::index::{KeyPart, KeyValue};
use pg::query::{query, record};
use pg::spi::Connection;
use pg::table::TableRow;

/// The kind of name that a row of skeletons belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bearing {
    Claimed,
    Reserved,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkeletonChange {
    /// Delete it, because its name is no longer reserved.
    Unreserve,
    /// Delete it, because its name is no longer claimed.
    Free,
    /// Give it to the name that replaces its bearer, because the lease of the new name has committed.
    PassOn,
    /// Leave it with its bearer, because the lease of the name that was to replace it was rolled back.
    Keep,
}

/// The names that have a skeleton.
#[derive(Default)]
pub struct Bearers {
    /// The claim that has it.
    pub bearer: Option<Bucket<'static>>,
    /// The claim that gets it when its lease commits.
    pub successor: Option<Bucket<'static>>,
    pub reserved: Vec<Bucket<'static>>,
}

impl Bearers {
    /// Returns all names, first those that do not depend on a lease.
    pub fn names(&self) -> impl Iterator<Item = &Bucket<'static>> {
        self.reserved.iter().chain(&self.bearer).chain(&self.successor)
    }
}

record! {
    struct BearerRow {
        bucket_type: i32,
        skeleton: Uuid,
        bucket_value: String,
        successor: Option<String>,
        is_reserved: bool,
    }
}

/// Joins skeletons `s` with rows `n` of arrays. The columns have the names of the arrays.
macro_rules! listed {
    ($more_arrays:literal, $more_columns:literal) => {
        concat!(
            "(SELECT * FROM unnest(:skeletons, :types, :names",
            $more_arrays,
            ") AS n (skeleton, bucket_type, bucket_value",
            $more_columns,
            ") OFFSET 0) n WHERE s.skeleton = ANY (:skeletons) AND s.skeleton = n.skeleton AND s.bucket_type = n.bucket_type"
        )
    };
}

query! {
    fn unreserve(skeletons: &[Uuid], types: &[i32], names: &[&str]) = [Statement Anywhere] concat!(
        "DELETE FROM claims.skeletons s USING ", listed!("", ""), " AND s.reserved = n.bucket_value");
    /// Makes other names the successors of these: they get the skeletons when their lease commits.
    fn name_successors(skeletons: &[Uuid], types: &[i32], names: &[&str], successors: &[&str]) -> usize = [Statement Anywhere] concat!(
        "UPDATE claims.skeletons s SET successor = n.successor FROM ", listed!(", :successors", ", successor"),
        " AND s.bucket_value = n.bucket_value AND s.reserved = '' AND s.successor IS NULL");
    fn succeed(skeletons: &[Uuid], types: &[i32], names: &[&str]) = [Statement Anywhere] concat!(
        "UPDATE claims.skeletons s SET bucket_value = s.successor, successor = NULL FROM ", listed!("", ""),
        " AND s.successor = n.bucket_value");
    fn stay(skeletons: &[Uuid], types: &[i32], names: &[&str]) = [Statement Anywhere] concat!(
        "UPDATE claims.skeletons s SET successor = NULL FROM ", listed!("", ""), " AND s.successor = n.bucket_value");
    fn free(skeletons: &[Uuid], types: &[i32], names: &[&str]) = [Statement Anywhere] concat!(
        "DELETE FROM claims.skeletons s USING ", listed!("", ""), " AND s.bucket_value = n.bucket_value AND s.reserved = ''");
    fn bearer_rows(skeletons: &[Uuid]) -> Vec<BearerRow> = [Latest Anywhere]
        "SELECT s.bucket_type, s.skeleton, s.bucket_value, s.successor, s.reserved <> '' AS is_reserved
           FROM claims.skeletons s WHERE s.skeleton = ANY (:skeletons)";
}

/// Returns the skeletons, types and names as columns.
pub fn columns<'b>(skeletons: &[(Skeleton, &'b Bucket)]) -> (Vec<Uuid>, Vec<i32>, Vec<&'b str>) {
    (
        skeletons.iter().map(|(skeleton, _)| skeleton.hash).collect(),
        skeletons.iter().map(|(skeleton, _)| skeleton.bucket_type).collect(),
        skeletons.iter().map(|(_, bucket)| &*bucket.value).collect(),
    )
}

/// Makes one change to each of several skeletons. If the tables are distributed, they are in one shard.
pub fn change(connection: &Connection, change: SkeletonChange, skeletons: &[(Skeleton, &Bucket)]) {
    let (skeletons, types, names) = columns(skeletons);
    match change {
        SkeletonChange::Unreserve => unreserve(connection, &skeletons, &types, &names),
        SkeletonChange::Free => free(connection, &skeletons, &types, &names),
        SkeletonChange::PassOn => succeed(connection, &skeletons, &types, &names),
        SkeletonChange::Keep => stay(connection, &skeletons, &types, &names),
    }
}

/// Passes skeletons on from names that are given up to new names. Returns how many. If the tables are distributed, they are in one shard.
pub fn pass_on(connection: &Connection, new: &[&NewSkeleton]) -> usize {
    let of = new.iter().filter_map(|new| Some((new.skeleton, new.predecessor?))).collect::<Vec<_>>();
    let successors: Vec<_> = new.iter().map(|new| &*new.bucket.value).collect();
    let (skeletons, types, names) = columns(&of);
    name_successors(connection, &skeletons, &types, &names, &successors)
}

/// Returns the names that have skeletons, as committed now. Takes no locks.
pub fn bearers(connection: &Connection, skeletons: &[Skeleton]) -> HashMap<Skeleton, Bearers> {
    let hashes: Vec<Uuid> = skeletons.iter().map(|skeleton| skeleton.hash).collect();
    let mut found: HashMap<Skeleton, Bearers> = HashMap::new();
    for BearerRow { bucket_type, skeleton, bucket_value, successor, is_reserved } in bearer_rows(connection, &hashes) {
        let bucket = |value: String| Bucket { bucket_type, value: value.into() };
        let bearers = found.entry(Skeleton { bucket_type, hash: skeleton }).or_default();
        if is_reserved {
            bearers.reserved.push(bucket(bucket_value));
        } else {
            (bearers.bearer, bearers.successor) = (Some(bucket(bucket_value)), successor.map(bucket));
        }
    }
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
        KeyPart { column: c"skeleton", value: KeyValue::Uuid(skeleton.hash) },
        KeyPart { column: c"bucket_type", value: KeyValue::Int4(skeleton.bucket_type) },
    ]
}
