//! Statements on claims that work for local and distributed tables.

use std::ffi::CStr;

use claims_model::{Bucket, Destroy, Reference};

use crate::tables::rows::buckets::types_and_values;
use crate::tables::rows::claims::{BUCKET_INDEX, EndedLeases, HeldFor, bucket_key_parts};
use crate::tables::rows::known_or_raised;
use crate::tables::rows::leases::NewLease;
use pg::in_flight;
use pg::spi::{Connection, Row, View};
use pg::statement::shared_statement;
use pg::uuid::pg_uuids;

shared_statement! {
    /// Marks claims of type $4 for destruction under the lease $1 of cell $2 at time $3, and returns them. It has no join: one relation and
    /// its unique index leave the planner no choice.
    MARK(UUIDOID, INT8OID, TIMESTAMPTZOID, INT4OID, TEXTARRAYOID) =
        "UPDATE claims.claims c SET status = 3, lease_uuid = $1, updated_at = $3
          WHERE c.bucket_value = ANY ($5) AND c.bucket_type = $4
            AND c.status = 1 AND c.creator_id IS NOT DISTINCT FROM $2
         RETURNING c.bucket_value, c.subject_type, c.subject_id, c.source_type, c.source_id";
    ACTIVATE(UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID, INT2OID, TIMESTAMPTZOID) = activate_held!("claims");
    REMOVE(UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID, INT2OID) = remove_held!("claims");
}

/// Marks the cell's ACTIVE claims among the destroys, and skips the others. Returns how many of the marked claims have the
/// subject and the source of their destroy. The destroys are in bucket order.
pub fn mark(connection: &Connection, lease: &NewLease, destroys: &[&Destroy]) -> usize {
    let mark = |destroys: &[&Destroy]| {
        let list: Vec<&str> = destroys.iter().map(|destroy| &*destroy.bucket.value).collect();
        let bucket_type = destroys.first().map(|destroy| destroy.bucket.bucket_type);
        let values = lease.key_values().into_iter().chain([bucket_type.into(), list.into()]);
        let marked = connection.run(&MARK, View::Statement, values);
        marked.map(|row| is_meant(destroys, &row)).into_iter().filter(|is_meant| *is_meant).count()
    };
    destroys.chunk_by(|one, other| one.bucket.bucket_type == other.bucket.bucket_type).map(mark).sum()
}

/// Returns whether a claim has the subject and the source of its destroy. Parts that the destroy does not name are not compared.
fn is_meant(destroys: &[&Destroy], row: &Row) -> bool {
    let value: String = row.must(1);
    let is_it = |named: &Option<Reference>, column: i32| {
        let has =
            |named: &Reference| row.must::<i32>(column) == named.type_id && row.must::<String>(column + 1) == *named.id;
        named.as_ref().is_none_or(has)
    };
    let place = destroys.binary_search_by(|destroy| (*destroy.bucket.value).cmp(value.as_str()));
    place.is_ok_and(|at| is_it(&destroys[at].source, 4) && is_it(&destroys[at].subject, 2))
}

/// Makes claims ACTIVE that leases hold with a status. Returns their number.
pub fn activate(connection: &Connection, all: &EndedLeases, buckets: &[&Bucket], held: HeldFor) -> usize {
    if buckets.is_empty() {
        return 0;
    }
    let [types, values] = types_and_values(buckets);
    let values = [pg_uuids(all.leases.iter().copied()), types, values, (held as i16).into(), all.at.into()];
    connection.run(&ACTIVATE, View::Statement, values).count()
}

/// Deletes claims that leases hold with a status. Returns their number.
pub fn remove(connection: &Connection, all: &EndedLeases, buckets: &[&Bucket], held: HeldFor) -> usize {
    if buckets.is_empty() {
        return 0;
    }
    let [types, values] = types_and_values(buckets);
    let values = [pg_uuids(all.leases.iter().copied()), types, values, (held as i16).into()];
    connection.run(&REMOVE, View::Statement, values).count()
}

/// Returns whether another open transaction has written or locked a claim on the bucket in a table, which is `claims` or one of
/// its shards. It also finds a claim that no snapshot shows yet.
pub fn is_in_flight_in(table: &CStr, bucket: &Bucket) -> bool {
    let key = bucket_key_parts(&bucket.value, bucket.bucket_type);
    known_or_raised(in_flight::is_in_flight(table, &key), BUCKET_INDEX)
}
