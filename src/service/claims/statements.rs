//! Statements on claims that work for local and distributed tables.

use std::ffi::CStr;

use claims_model::{Bucket, Claim, Destroy, Reference};
use uuid::Uuid;

use super::buckets::{NewClaim, types_and_names};
use super::leases::NewLease;
use super::rows::{ACTIVE, BUCKET_INDEX, EndedLeases, HeldFor, bucket_key_parts};
use crate::kernel::error::known_or_raised;
use pg::clock::Moment;
use pg::in_flight;
use pg::query::{arguments, query, record};
use pg::spi::Connection;

record! {
    /// A claim that was marked for destruction.
    struct Marked {
        bucket_value: String,
        subject_type: i32,
        subject_id: String,
        source_type: i32,
        source_id: String,
    }
}

/// Whether a claim `c` has one of the types and one of the values, and one of the leases holds it with a status. A type may be combined
/// with the value of another type without harm, because the lease must hold the claim.
macro_rules! held {
    () => {
        "c.bucket_value = ANY (:bucket_values) AND c.bucket_type = ANY (:bucket_types) AND c.lease_uuid = ANY (:leases) AND c.status = :status"
    };
}

/// The beginning of an INSERT of claims, with its columns.
macro_rules! into_claims {
    () => {
        "INSERT INTO claims.claims (uuid, bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, lease_uuid,
                                    status, created_at, updated_at, display_value) "
    };
}
pub const INTO_CLAIMS: &str = into_claims!();

macro_rules! insert {
    ($returning:literal) => {
        concat!(
            into_claims!(),
            "VALUES (:uuid, :bucket_type, :bucket_value, :subject_type, :subject_id, :source_type, :source_id, :cell_id, :lease, :status,
                     :at, :at, :display_value)",
            $returning
        )
    };
}

/// Gives the row of a bucket another claim, if a condition holds for the row.
macro_rules! replace_row {
    ($set:expr, $where:expr) => {
        concat!(
            "UPDATE claims.claims c
                SET uuid = :uuid, subject_type = :subject_type, subject_id = :subject_id, source_type = :source_type, source_id = :source_id,
                    created_at = :at, updated_at = :at, display_value = :display_value, ",
            $set,
            " WHERE c.bucket_value = :bucket_value AND c.bucket_type = :bucket_type AND ",
            $where
        )
    };
}
pub(super) use replace_row;

arguments! {
    /// Claims that leases hold with a status, and further ones in other shards of their nodes.
    pub struct HeldOnNodes<'h> {
        pub leases: &'h [Uuid],
        pub bucket_types: &'h [i32],
        pub bucket_values: &'h [&'h str],
        pub status: i16,
        pub anchor_types: Vec<i32>,
        pub parts: Vec<i32>,
        pub shards: Vec<i64>,
        pub further_types: Vec<i32>,
        pub further_values: Vec<&'h str>,
    }
}

query! {
    fn insert_here(cell_id: i64, lease: Option<Uuid>, status: i16, at: Moment; ..new: NewClaim) -> usize = [Statement] insert!("");
    /// Like [`insert_here`], where the claims are distributed.
    fn insert_on_shard(cell_id: i64, lease: Option<Uuid>, status: i16, at: Moment; ..new: NewClaim) -> usize = [Statement OneShard]
        insert!(" RETURNING claims.is_current_shard(tableoid)");
    /// Replaces a claim in place that a lease is to destroy.
    fn replace_one(lease: Uuid, at: Moment; ..new: NewClaim) -> usize = [Statement OneShard]
        replace_row!("status = 1, lease_uuid = NULL", "c.lease_uuid = :lease AND c.status = 3");
    /// Marks claims for destruction, and returns them. It has no join: one relation and its unique index leave the planner no choice.
    fn mark_claims(lease_uuid: Uuid, cell_id: i64, at: Moment, bucket_type: i32, bucket_values: &[&str]) -> Vec<Marked> = [Statement Anywhere]
        "UPDATE claims.claims c SET status = 3, lease_uuid = :lease_uuid, updated_at = :at
          WHERE c.bucket_value = ANY (:bucket_values) AND c.bucket_type = :bucket_type
            AND c.status = 1 AND c.creator_id IS NOT DISTINCT FROM :cell_id
         RETURNING c.bucket_value, c.subject_type, c.subject_id, c.source_type, c.source_id";
    fn activate_held(leases: &[Uuid], bucket_types: &[i32], bucket_values: &[&str], status: i16, at: Moment) -> usize = [Statement Anywhere]
        concat!("UPDATE claims.claims c SET status = 1, lease_uuid = NULL, updated_at = :at WHERE ", held!());
    fn remove_held(leases: &[Uuid], bucket_types: &[i32], bucket_values: &[&str], status: i16) -> usize = [Statement Anywhere]
        concat!("DELETE FROM claims.claims c WHERE ", held!());
    /// Makes claims ACTIVE, and further ones in other shards of their nodes. Returns the numbers of the further ones.
    pub fn activate_on_nodes(at: Moment; ..held: HeldOnNodes) -> Vec<i32> = [Statement Anywhere] concat!(
        "UPDATE claims.claims c SET status = 1, lease_uuid = NULL, updated_at = :at WHERE ", held!(),
        " RETURNING claims.settle_on_node(c.bucket_type, c.bucket_value, :anchor_types, :bucket_values, :parts, :shards, :leases, :further_types,
                                          :further_values, :status, :at)");
    /// Like [`activate_on_nodes`], and deletes the claims.
    pub fn remove_on_nodes(; ..held: HeldOnNodes) -> Vec<i32> = [Statement Anywhere] concat!(
        "DELETE FROM claims.claims c WHERE ", held!(),
        " RETURNING claims.settle_on_node(c.bucket_type, c.bucket_value, :anchor_types, :bucket_values, :parts, :shards, :leases, :further_types,
                                          :further_values, :status, NULL)");
}

/// The lease, if there is one, the cell and the time of new claims.
#[derive(Clone, Copy)]
pub struct ClaimOrigin {
    pub lease: Option<Uuid>,
    pub cell_id: i64,
    pub at: Moment,
}

impl ClaimOrigin {
    /// Returns the origin of claims that a lease creates.
    pub fn lease(lease: &NewLease) -> Self {
        ClaimOrigin { lease: Some(lease.uuid), cell_id: lease.cell_id, at: lease.made_at }
    }

    /// Returns the origin of claims that are ACTIVE at once.
    pub fn cell(cell_id: i64) -> Self {
        ClaimOrigin { lease: None, cell_id, at: Moment::now() }
    }

    pub fn status(&self) -> i16 {
        if self.lease.is_some() { HeldFor::Creating as i16 } else { ACTIVE }
    }
}

/// Creates a claim in a table of this database. Returns the number of claims.
pub fn create(connection: &Connection, origin: ClaimOrigin, claim: &Claim) -> usize {
    insert_here(connection, origin.cell_id, origin.lease, origin.status(), origin.at, NewClaim::of(claim))
}

/// Creates a distributed claim. Returns the number of claims.
pub fn create_on_shard(connection: &Connection, origin: ClaimOrigin, claim: &Claim) -> usize {
    insert_on_shard(connection, origin.cell_id, origin.lease, origin.status(), origin.at, NewClaim::of(claim))
}

/// Replaces a claim of a lease in place. Returns the number of claims.
pub fn replace(connection: &Connection, lease: Uuid, by: &Claim, at: Moment) -> usize {
    replace_one(connection, lease, at, NewClaim::of(by))
}

/// Marks the cell's ACTIVE claims among the destroys, and skips the others. Returns how many of the marked claims have the
/// subject and the source of their destroy. The destroys are in bucket order.
pub fn mark(connection: &Connection, lease: &NewLease, destroys: &[&Destroy]) -> usize {
    let mark = |destroys: &[&Destroy]| {
        let values: Vec<&str> = destroys.iter().map(|destroy| &*destroy.bucket.value).collect();
        let bucket_type = destroys[0].bucket.bucket_type;
        let marked = mark_claims(connection, lease.uuid, lease.cell_id, lease.made_at, bucket_type, &values);
        marked.into_iter().filter(|marked| is_meant(destroys, marked)).count()
    };
    destroys.chunk_by(|one, other| one.bucket.bucket_type == other.bucket.bucket_type).map(mark).sum()
}

/// Returns whether a claim has the subject and the source of its destroy. Parts that the destroy does not name are not compared.
fn is_meant(destroys: &[&Destroy], marked: &Marked) -> bool {
    let is_it = |named: &Option<Reference>, type_id: i32, id: &str| {
        named.as_ref().is_none_or(|named| type_id == named.type_id && *id == *named.id)
    };
    let place = destroys.binary_search_by(|destroy| (*destroy.bucket.value).cmp(marked.bucket_value.as_str()));
    place.is_ok_and(|at| {
        is_it(&destroys[at].source, marked.source_type, &marked.source_id)
            && is_it(&destroys[at].subject, marked.subject_type, &marked.subject_id)
    })
}

/// Makes claims ACTIVE that leases hold with a status. Returns their number.
pub fn activate(connection: &Connection, all: &EndedLeases, buckets: &[&Bucket], held: HeldFor) -> usize {
    if buckets.is_empty() {
        return 0;
    }
    let (types, values) = types_and_names(buckets);
    activate_held(connection, &all.leases, &types, &values, held as i16, all.at)
}

/// Deletes claims that leases hold with a status. Returns their number.
pub fn remove(connection: &Connection, all: &EndedLeases, buckets: &[&Bucket], held: HeldFor) -> usize {
    if buckets.is_empty() {
        return 0;
    }
    let (types, values) = types_and_names(buckets);
    remove_held(connection, &all.leases, &types, &values, held as i16)
}

/// Returns whether another open transaction has written or locked a claim on the bucket in a table, which is `claims` or one of
/// its shards. It also finds a claim that no snapshot shows yet.
pub fn is_in_flight_in(table: &CStr, bucket: &Bucket) -> bool {
    let key = bucket_key_parts(&bucket.value, bucket.bucket_type);
    known_or_raised(in_flight::is_in_flight(table, &key), BUCKET_INDEX)
}
