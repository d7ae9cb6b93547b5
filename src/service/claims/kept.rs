//! Statements on names that are kept back, for local and distributed tables.
//!
//! Such a name is a row of nobody with the status KEPT_BACK. So the unique index on the buckets decides about it as about a claim, and every
//! statement on the claims of a cell passes over it. A lease that reclaims it sets the status LEASE_RECLAIMING and nothing else: a rollback
//! finds everything as it was.

use std::collections::HashSet;

use claims_model::quarantine::Reclaim;
use claims_model::{Bucket, Claim};
use uuid::Uuid;

use super::buckets::{BucketRow, NewClaim, OwnedName, OwnedRow, types_and_names, values_by_type};
use super::rows::{EndedLeases, ToKeep};
use super::statements::replace_row;
use pg::clock::Moment;
use pg::query::{query, record};
use pg::spi::Connection;

/// Whether a name `c` that is kept back is over at `:now`, or may be reclaimed by `:owner`, for every subject or for that of the claim.
macro_rules! may_be_had {
    () => {
        "c.status = 5 AND (c.available_at <= :now
                           OR c.given_up_by = :owner AND (:any_subject OR c.subject_type = :subject_type AND c.subject_id = :subject_id))"
    };
}

/// Makes a row the claim of a cell.
macro_rules! give_to_cell {
    ($set:literal, $where:expr) => {
        replace_row!(concat!("creator_id = :cell_id, given_up_by = NULL, available_at = NULL, ", $set), $where)
    };
}

/// Changes names that are kept back, whether or not leases reclaim them, and no claim.
macro_rules! change_kept {
    ($set:literal, $where:expr) => {
        concat!("UPDATE claims.claims c SET ", $set, " WHERE c.status IN (5, 6) AND ", $where)
    };
}
pub(in crate::service) use change_kept;

/// Keeps the names of claims back.
macro_rules! keep_back {
    ($where:expr) => {
        concat!(
            "UPDATE claims.claims c
                SET creator_id = -1, lease_uuid = NULL, status = 5, updated_at = :at, given_up_by = c.creator_id, available_at = :available_at
              WHERE ",
            $where
        )
    };
}

/// Who may have a name before its time is over.
#[derive(Clone, Copy)]
pub struct Right {
    /// The cell that must have given it up. `None`: nobody may have it.
    owner: Option<i64>,
    /// Whether the subject does not count.
    any_subject: bool,
    now: Moment,
}

impl Right {
    /// Returns the right of a cell now.
    pub fn of(cell_id: i64, reclaim: Reclaim) -> Self {
        let owner = (reclaim != Reclaim::Nobody).then_some(cell_id);
        Right { owner, any_subject: reclaim == Reclaim::Cell, now: Moment::now() }
    }
}

record! {
    /// A name that is no longer kept back, with its last owner.
    pub struct FreedName {
        pub given_up_by: Option<i64>,
        bucket_type: i32,
        bucket_value: String,
        subject_type: i32,
        subject_id: String,
        source_type: i32,
        source_id: String,
    }
}

impl FreedName {
    pub fn into_name(self) -> OwnedName {
        let FreedName { bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, .. } = self;
        OwnedName::from(OwnedRow { bucket_type, bucket_value, subject_type, subject_id, source_type, source_id })
    }
}

query! {
    /// Marks a name under a lease, if the right allows it.
    fn mark(
        lease: Uuid, bucket_type: i32, bucket_value: &str, subject_type: i32, subject_id: &str, owner: Option<i64>, any_subject: bool, now: Moment,
    ) -> usize = [Statement OneShard]
        change_kept!("status = 6, lease_uuid = :lease",
                     concat!("c.bucket_value = :bucket_value AND c.bucket_type = :bucket_type AND ", may_be_had!()));
    /// Returns which of the names leases reclaim.
    fn reclaimed(leases: &[Uuid], bucket_types: &[i32], bucket_values: &[&str]) -> Vec<BucketRow> = [Statement Anywhere]
        "SELECT c.bucket_type, c.bucket_value FROM claims.claims c
          WHERE c.bucket_value = ANY (:bucket_values) AND c.bucket_type = ANY (:bucket_types) AND c.lease_uuid = ANY (:leases) AND c.status = 6";
    fn complete(lease: Uuid, cell_id: i64, at: Moment; ..new: NewClaim) -> usize = [Statement OneShard]
        give_to_cell!("status = 1, lease_uuid = NULL", "c.lease_uuid = :lease AND c.status = 6");
    fn hold(lease: Uuid, cell_id: i64, at: Moment; ..new: NewClaim) -> usize = [Statement OneShard]
        give_to_cell!("status = 2", "c.lease_uuid = :lease AND c.status = 6");
    fn give_back_held(leases: &[Uuid], bucket_types: &[i32], bucket_values: &[&str]) -> Vec<BucketRow> = [Statement Anywhere]
        change_kept!("status = 5, lease_uuid = NULL",
                     "c.bucket_value = ANY (:bucket_values) AND c.bucket_type = ANY (:bucket_types) AND c.lease_uuid = ANY (:leases) AND c.status = 6
                     RETURNING c.bucket_type, c.bucket_value");
    fn keep_held(leases: &[Uuid], bucket_type: i32, bucket_values: &[&str], status: i16, at: Moment, available_at: Moment) -> usize
        = [Statement Anywhere]
        keep_back!("c.bucket_value = ANY (:bucket_values) AND c.bucket_type = :bucket_type AND c.lease_uuid = ANY (:leases) AND c.status = :status");
    /// Keeps back the names of claims that were read with these uuids and under these cells, unless they have changed since.
    pub fn keep_read(bucket_type: i32, bucket_values: &[&str], read_uuids: &[Uuid], read_cells: &[i64], at: Moment, available_at: Moment) -> usize
        = [Statement Anywhere]
        concat!(keep_back!("c.bucket_value = ANY (:bucket_values) AND c.bucket_type = :bucket_type AND c.uuid = ANY (:read_uuids)
                            AND c.creator_id = ANY (:read_cells) AND c.status = 1 AND c.lease_uuid IS NULL"),
                " RETURNING claims.is_current_shard(c.tableoid)");
    fn keep_locked(cell_id: i64, bucket_type: i32, bucket_values: &[&str], at: Moment, available_at: Moment) = [Statement Anywhere]
        keep_back!("c.bucket_value = ANY (:bucket_values) AND c.bucket_type = :bucket_type AND c.creator_id = :cell_id AND c.status = 1");
    fn delete_locked(cell_id: i64, bucket_type: i32, bucket_values: &[&str]) = [Statement Anywhere]
        "DELETE FROM claims.claims c
          WHERE c.bucket_value = ANY (:bucket_values) AND c.bucket_type = :bucket_type AND c.creator_id = :cell_id AND c.status = 1";
    /// Gives a name that no lease holds to a cell at once, whoever has had it. Returns the number of names that still had this owner and status.
    pub fn hand_over(cell_id: i64, at: Moment, former_cell: i64, former_status: i16; ..new: NewClaim) -> usize = [Statement OneShard]
        concat!(give_to_cell!("status = 1", "c.creator_id = :former_cell AND c.status = :former_status AND c.lease_uuid IS NULL"),
                " RETURNING claims.is_current_shard(c.tableoid)");
    /// Gives a name to a cell at once, if the right allows it.
    fn take(cell_id: i64, at: Moment, owner: Option<i64>, any_subject: bool, now: Moment; ..new: NewClaim) -> usize = [Statement OneShard]
        concat!(give_to_cell!("status = 1, lease_uuid = NULL", may_be_had!()), " RETURNING claims.is_current_shard(c.tableoid)");
    /// Frees names of one type that are kept back and that no lease reclaims. Returns them.
    pub fn free(bucket_type: i32, names: &[&str]) -> Vec<FreedName> = [Statement Anywhere]
        "DELETE FROM claims.claims c WHERE c.bucket_value = ANY (:names) AND c.bucket_type = :bucket_type AND c.status = 5
         RETURNING c.given_up_by, c.bucket_type, c.bucket_value, c.subject_type, c.subject_id, c.source_type, c.source_id";
    fn end_time(bucket_type: i32, names: &[&str], now: Moment) -> Vec<String> = [Statement Anywhere]
        change_kept!("available_at = :now",
                     "c.bucket_value = ANY (:names) AND c.bucket_type = :bucket_type AND c.status = 6 AND c.available_at > :now
                     RETURNING c.bucket_value");
    /// Deletes the names of a type whose time is over.
    pub fn drop_over(bucket_type: i32, now: Moment) -> usize = [Statement Anywhere]
        "DELETE FROM claims.claims c WHERE c.creator_id = -1 AND c.bucket_type = :bucket_type AND c.status = 5 AND c.available_at <= :now";
    /// Replaces a name that is kept back by another one, unless that exists.
    pub fn rename(bucket_type: i32, value: &str, new_value: &str) -> usize = [Statement Anywhere]
        change_kept!("bucket_value = :new_value, display_value = NULL",
                     "c.bucket_value = :value AND c.bucket_type = :bucket_type AND c.status = 5
                      AND NOT EXISTS (SELECT FROM claims.claims o WHERE o.bucket_value = :new_value AND o.bucket_type = :bucket_type)");
    /// Leaves names that a removed cell has given up to nobody: a new cell can get its number.
    pub fn end_rights(cell_id: i64) -> usize = [Statement Anywhere]
        change_kept!("given_up_by = -1", "c.creator_id = -1 AND c.given_up_by = :cell_id");
    /// Returns the name of the unique whose values are names of a type.
    pub fn unique_of(bucket_type: i32) -> Option<String> = [Latest Anywhere]
        "SELECT u.name::text FROM claims.unique_constraints u WHERE u.type_id = :bucket_type";
    /// Sets for how long names of a type are kept back, and who may have them meanwhile.
    pub fn set(bucket_type: i32, keep_for: pgrx::datum::Interval, reclaim: &str) = [Statement Anywhere]
        "UPDATE claims.bucket_types SET keep_for = :keep_for, reclaim = :reclaim WHERE id = :bucket_type";
}

/// Marks a name that is kept back under a lease which is to create its claim. Returns the number of names. Waits up to the lock timeout for
/// other transactions that have changed the row.
pub fn reclaim(connection: &Connection, lease: Uuid, claim: &Claim, right: Right) -> usize {
    let (Claim { bucket, subject, .. }, Right { owner, any_subject, now }) = (claim, right);
    mark(connection, lease, bucket.bucket_type, &bucket.value, subject.type_id, &subject.id, owner, any_subject, now)
}

/// Passes to `change` those of the claims that are to be made of names which ended leases reclaim. Returns how many names it has changed. A batch
/// may create a thousand claims and reclaim one: that one has a statement, and the others have none.
fn each_reclaimed(
    connection: &Connection,
    all: &EndedLeases,
    claims: &[(Uuid, Claim)],
    change: impl Fn(Uuid, NewClaim) -> usize,
) -> usize {
    let change = |(lease, claim): &(Uuid, Claim)| change(*lease, NewClaim::of(claim));
    if claims.len() < 2 {
        return claims.iter().map(change).sum();
    }
    let (types, values) = types_and_names(&claims.iter().map(|(_, claim)| &claim.bucket).collect::<Vec<_>>());
    let reclaimed = reclaimed(connection, &all.leases, &types, &values);
    let reclaimed: HashSet<Bucket> = reclaimed.into_iter().map(Bucket::from).collect();
    claims.iter().filter(|(_, claim)| reclaimed.contains(&claim.bucket)).map(change).sum()
}

/// Makes names that ended leases reclaim ACTIVE claims of the cell. Returns their number.
pub fn complete_reclaims(connection: &Connection, all: &EndedLeases, cell_id: i64, claims: &[(Uuid, Claim)]) -> usize {
    each_reclaimed(connection, all, claims, |lease, new| complete(connection, lease, cell_id, all.at, new))
}

/// Makes names that leases reclaim claims that these leases create.
pub fn hold_reclaims(connection: &Connection, all: &EndedLeases, cell_id: i64, claims: &[(Uuid, Claim)]) -> usize {
    each_reclaimed(connection, all, claims, |lease, new| hold(connection, lease, cell_id, all.at, new))
}

/// Leaves names that ended leases were to reclaim as they were. Returns them.
pub fn give_back(connection: &Connection, all: &EndedLeases, buckets: &[&Bucket]) -> Vec<Bucket<'static>> {
    let (types, values) = types_and_names(buckets);
    give_back_held(connection, &all.leases, &types, &values).into_iter().map(Bucket::from).collect()
}

/// Keeps back the names of claims that ended leases hold. Returns their number.
pub fn keep_back(connection: &Connection, all: &EndedLeases, names: &ToKeep) -> usize {
    let ToKeep { held, buckets, available_at } = *names;
    let Some(first) = buckets.first() else { return 0 };
    let values: Vec<&str> = buckets.iter().map(|bucket| &*bucket.value).collect();
    keep_held(connection, &all.leases, first.bucket_type, &values, held as i16, all.at, available_at)
}

/// Ends locked claims of a cell, which are all in one shard: keeps the names of the types in `ends` back until then, and frees the others.
pub fn end_locked(connection: &Connection, cell_id: i64, locked: &[OwnedName], ends: &[(i32, Moment)]) {
    for (bucket_type, values) in values_by_type(locked.iter().map(|name| &name.bucket)) {
        match ends.iter().find(|(of_type, _)| *of_type == bucket_type) {
            Some((_, end)) => keep_locked(connection, cell_id, bucket_type, &values, Moment::now(), *end),
            None => delete_locked(connection, cell_id, bucket_type, &values),
        }
    }
}

/// Makes a name that is kept back an ACTIVE claim of a cell at once, if the right allows it. Returns the number of names.
pub fn reclaim_now(connection: &Connection, cell_id: i64, claim: &Claim, right: Right) -> usize {
    let Right { owner, any_subject, now } = right;
    take(connection, cell_id, now, owner, any_subject, now, NewClaim::of(claim))
}

/// Frees names of one type that are kept back. Of those that leases reclaim it ends the time. Returns both.
pub fn release(connection: &Connection, bucket_type: i32, names: &[&str]) -> LetGo {
    let freed = free(connection, bucket_type, names);
    LetGo { freed, ended: end_time(connection, bucket_type, names, Moment::now()).len() }
}

/// Names that are no longer kept back.
pub struct LetGo {
    /// Nobody has them.
    pub freed: Vec<FreedName>,
    /// The number of those that leases reclaim. They are free if the leases are rolled back.
    pub ended: usize,
}
