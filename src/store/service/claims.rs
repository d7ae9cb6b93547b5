//! Statements on claims: take them, settle them, and see what stands in the way.

use std::collections::HashMap;
use std::ffi::CStr;

use claims_model::{Bucket, Claim, Destroy, Reference};
use uuid::Uuid;

use super::buckets::{claim_arrays, claim_values, displays, has_displays, types_and_values, values_by_type};
use super::known_or_raised;
use super::leases::NewLease;
use crate::pg::clock::Moment;
use crate::pg::in_flight;
use crate::pg::index::{KeyPart, KeyValue};
use crate::pg::spi::{Connection, Row, View};
use crate::pg::statement::{shared_statement, statement};
use crate::pg::uuid::pg_uuids;
use crate::pg::xact::Surroundings;

/// Marks claims of type $4 for destruction under the lease $1 of cell $2 at time $3. No join: one relation and its
/// unique index leave the planner nothing to choose.
macro_rules! mark_claims {
    () => {
        "UPDATE claims.claims c SET status = 3, lease_uuid = $1, updated_at = $3
          WHERE c.bucket_value = ANY ($5) AND c.bucket_type = $4
            AND c.status = 1 AND c.creator_id IS NOT DISTINCT FROM $2"
    };
}

/// The lease row, and behind it (the other parts read from `lease`) the claims.
macro_rules! with_lease {
    () => {
        concat!("WITH lease AS (", insert_lease!(), " RETURNING 1) ")
    };
}

macro_rules! replace_claims {
    ($display:literal, $array:literal, $column:literal) => {
        concat!(
            "UPDATE claims.claims c
                SET uuid = n.uuid, subject_type = n.subject_type, subject_id = n.subject_id, source_type = n.source_type,
                    source_id = n.source_id, status = 1, lease_uuid = NULL, created_at = $9, updated_at = $9, display_value = ",
            $display,
            " FROM (SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8",
            $array,
            ") AS n (lease, uuid, bucket_type, bucket_value, subject_type, subject_id, source_type, source_id",
            $column,
            ") OFFSET 0) n WHERE ",
            is_row!("c.bucket_value", "c.bucket_type", "n.bucket_value", "n.bucket_type"),
            " AND c.lease_uuid = n.lease AND c.status = 3"
        )
    };
}

statement! {
    /// A lease with one create, the most frequent batch. Arrays of one element each would take a third of its time.
    LEASE_AND_CREATE_ONE(UUIDOID, INT8OID, TIMESTAMPTZOID, JSONBOID, BYTEAOID, XID8OID,
                         UUIDOID, INT4OID, TEXTOID, INT4OID, TEXTOID, INT4OID, TEXTOID) = concat!(
        with_lease!(), insert_into!("claims"), "SELECT $7, $8, $9, $10, $11, $12, $13, $2, $1, 2, $3, $3 FROM lease");
    /// A lease and creates: one statement.
    LEASE_AND_CREATE(UUIDOID, INT8OID, TIMESTAMPTZOID, JSONBOID, BYTEAOID, XID8OID,
                     UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID, INT4ARRAYOID, TEXTARRAYOID, INT4ARRAYOID, TEXTARRAYOID) = concat!(
        with_lease!(), insert_into!("claims"),
        insert_claims!("$7", "$8", "$9", "$10", "$11", "$12", "$13", "", " FROM lease"));
    LEASE(UUIDOID, INT8OID, TIMESTAMPTZOID, JSONBOID, BYTEAOID, XID8OID) = concat!(with_lease!(), "SELECT FROM lease");
    CREATE(UUIDOID, INT8OID, TIMESTAMPTZOID,
           UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID, INT4ARRAYOID, TEXTARRAYOID, INT4ARRAYOID, TEXTARRAYOID) = concat!(
        insert_into!("claims"), insert_claims!("$4", "$5", "$6", "$7", "$8", "$9", "$10", "", ""));
    /// The same two, of names that were given in other forms than their canonical ones. For names that are what they were given
    /// as, that column costs nothing.
    LEASE_AND_CREATE_DISPLAYED(UUIDOID, INT8OID, TIMESTAMPTZOID, JSONBOID, BYTEAOID, XID8OID, UUIDARRAYOID, INT4ARRAYOID,
                               TEXTARRAYOID, INT4ARRAYOID, TEXTARRAYOID, INT4ARRAYOID, TEXTARRAYOID, TEXTARRAYOID) = concat!(
        with_lease!(), insert_into!("claims", ", display_value"),
        insert_claims!("$7", "$8", "$9", "$10", "$11", "$12", "$13", ", unnest($14)", " FROM lease"));
    CREATE_DISPLAYED(UUIDOID, INT8OID, TIMESTAMPTZOID, UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID, INT4ARRAYOID, TEXTARRAYOID,
                     INT4ARRAYOID, TEXTARRAYOID, TEXTARRAYOID) = concat!(
        insert_into!("claims", ", display_value"), insert_claims!("$4", "$5", "$6", "$7", "$8", "$9", "$10", ", unnest($11)", ""));
    /// What stands on the buckets. Locks nothing: a row that is only reported is nobody's business to lock.
    STANDING(INT4OID, TEXTARRAYOID) =
        concat!(
        "SELECT c.bucket_value, c.subject_type, c.subject_id, c.source_type, c.source_id, ", claim_cell!(), ", c.status = 1,
                CASE WHEN c.status = 4 THEN (SELECT t.created_at FROM claims.cell_transfers t WHERE t.transfer_uuid = c.lease_uuid)
                     ELSE (SELECT l.created_at FROM claims.claim_leases l WHERE l.uuid = c.lease_uuid) END, ", other_cell!(), "
           FROM claims.claims c
          WHERE c.bucket_value = ANY ($2) AND c.bucket_type = $1");
    /// Makes other claims of those that leases are to replace, in place, at $9: each with its lease, a uuid, its bucket, and
    /// the new subject and source; the names were given in their canonical forms.
    REPLACE(UUIDARRAYOID, UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID, INT4ARRAYOID, TEXTARRAYOID, INT4ARRAYOID, TEXTARRAYOID,
            TIMESTAMPTZOID) = replace_claims!("NULL", "", "");
    /// The same with the forms in which names were given.
    REPLACE_DISPLAYED(UUIDARRAYOID, UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID, INT4ARRAYOID, TEXTARRAYOID, INT4ARRAYOID, TEXTARRAYOID,
                      TIMESTAMPTZOID, TEXTARRAYOID) = replace_claims!("n.display_value", ", $10", ", display_value");
}

shared_statement! {
    MARK(UUIDOID, INT8OID, TIMESTAMPTZOID, INT4OID, TEXTARRAYOID) = mark_claims!();
    /// The same, and what the claims are.
    MARK_AND_TELL(UUIDOID, INT8OID, TIMESTAMPTZOID, INT4OID, TEXTARRAYOID) = concat!(
        mark_claims!(), " RETURNING c.bucket_value, c.subject_type, c.subject_id, c.source_type, c.source_id");
    /// Makes held claims ACTIVE.
    ACTIVATE(UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID, INT2OID, TIMESTAMPTZOID) = activate_held!("claims");
    /// Deletes held claims.
    REMOVE(UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID, INT2OID) = remove_held!("claims");
}

/// The status of a claim that a lease is to create, and of one that it is to destroy or to replace.
#[derive(Debug, Clone, Copy)]
pub enum HeldFor {
    Creating = 2,
    Destroying = 3,
}

/// Puts the lease and claims to create in, in bucket order, in one statement; returns how many claims. A bucket that
/// exists is a unique violation; a row that another transaction holds runs into `lock_timeout`.
pub fn put_lease(connection: &Connection, lease: &NewLease, creates: &[&Claim]) -> usize {
    let lease_values = lease.values().into_iter();
    match creates {
        [] => {
            connection.run(&LEASE, View::Statement, lease_values);
            0
        }
        _ if has_displays(creates) => {
            let values = lease_values.chain(claim_arrays(creates)).chain([displays(creates)]);
            connection.run(&LEASE_AND_CREATE_DISPLAYED, View::Statement, values).count()
        }
        [only] => {
            connection.run(&LEASE_AND_CREATE_ONE, View::Statement, lease_values.chain(claim_values(only))).count()
        }
        _ => connection.run(&LEASE_AND_CREATE, View::Statement, lease_values.chain(claim_arrays(creates))).count(),
    }
}

/// Creates claims under a lease that is there already.
pub fn put(connection: &Connection, lease: &NewLease, creates: &[&Claim]) -> usize {
    let values = lease.key_values().into_iter().chain(claim_arrays(creates));
    if has_displays(creates) {
        return connection.run(&CREATE_DISPLAYED, View::Statement, values.chain([displays(creates)])).count();
    }
    connection.run(&CREATE, View::Statement, values).count()
}

/// Marks claims of the cell that are ACTIVE; the others are left alone. Returns how many of them are those that the destroys
/// mean, which are in the order of their buckets.
pub fn mark(connection: &Connection, lease: &NewLease, destroys: &[&Destroy]) -> usize {
    let mark = |destroys: &[&Destroy]| {
        let list: Vec<&str> = destroys.iter().map(|destroy| &*destroy.bucket.value).collect();
        let bucket_type = destroys.first().map(|destroy| destroy.bucket.bucket_type);
        let values = lease.key_values().into_iter().chain([bucket_type.into(), list.into()]);
        if !destroys.iter().any(|destroy| destroy.names_more()) {
            return connection.run(&MARK, View::Statement, values).count();
        }
        let marked = connection.run(&MARK_AND_TELL, View::Statement, values);
        marked.map(|row| is_meant(destroys, &row)).into_iter().filter(|is_meant| *is_meant).count()
    };
    destroys.chunk_by(|one, other| one.bucket.bucket_type == other.bucket.bucket_type).map(mark).sum()
}

/// Whether a claim has the subject and the source that the destroy of its bucket names. What none names is not read.
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

/// A claim that stands on one of the buckets asked for.
pub struct FoundClaim {
    pub holder_cell_id: i64,
    pub active: bool,
    pub subject: Reference<'static>,
    pub source: Reference<'static>,
    /// When the lease, or the transfer, was made that holds it.
    pub lease_made_at: Option<Moment>,
    /// A transfer holds it, from or to the holder and this cell.
    pub other_cell_id: Option<i64>,
}

impl FoundClaim {
    /// Whether a transfer holds it, from or to a cell.
    pub fn is_in_transfer_of(&self, cell_id: i64) -> bool {
        self.other_cell_id.is_some_and(|other| [self.holder_cell_id, other].contains(&cell_id))
    }
}

/// What is committed on these buckets right now.
pub fn standing_on(connection: &Connection, buckets: &[&Bucket]) -> HashMap<Bucket<'static>, FoundClaim> {
    let of_type = |(bucket_type, values): (i32, Vec<&str>)| {
        connection.run(&STANDING, View::Latest, [bucket_type.into(), values.into()]).map(|row| {
            let (bucket, subject, source) = claim_of(bucket_type, &row);
            let (holder_cell_id, active, lease_made_at) = (row.must(6), row.must(7), row.get(8));
            (bucket, FoundClaim { holder_cell_id, active, subject, source, lease_made_at, other_cell_id: row.get(9) })
        })
    };
    values_by_type(buckets.iter().copied()).into_iter().flat_map(of_type).collect()
}

/// Bucket value, subject and source, which are the first columns of a row.
fn claim_of(bucket_type: i32, row: &Row) -> (Bucket<'static>, Reference<'static>, Reference<'static>) {
    let text = |column| row.must::<String>(column).into();
    (
        Bucket { bucket_type, value: text(1) },
        Reference { type_id: row.must(2), id: text(3) },
        Reference { type_id: row.must(4), id: text(5) },
    )
}

/// Leases that have ended, whose claims are settled.
pub struct Settlement {
    pub leases: Vec<Uuid>,
    pub at: Moment,
    /// Matters where the claims are on several nodes.
    pub around: Surroundings,
}

/// Makes claims ACTIVE that leases hold in a state; returns how many they were.
pub fn activate(connection: &Connection, all: &Settlement, buckets: &[&Bucket], held: HeldFor) -> usize {
    if buckets.is_empty() {
        return 0;
    }
    let [types, values] = types_and_values(buckets);
    let values = [pg_uuids(all.leases.iter().copied()), types, values, (held as i16).into(), all.at.into()];
    connection.run(&ACTIVATE, View::Statement, values).count()
}

/// Deletes claims that leases hold in a state; returns how many they were.
pub fn remove(connection: &Connection, all: &Settlement, buckets: &[&Bucket], held: HeldFor) -> usize {
    if buckets.is_empty() {
        return 0;
    }
    let [types, values] = types_and_values(buckets);
    let values = [pg_uuids(all.leases.iter().copied()), types, values, (held as i16).into()];
    connection.run(&REMOVE, View::Statement, values).count()
}

/// Makes other claims of those that leases are to replace, in place: no bucket is free in between. Returns how many.
pub fn replace(connection: &Connection, all: &Settlement, claims: &[(Uuid, &Claim)]) -> usize {
    if claims.is_empty() {
        return 0;
    }
    let leases = pg_uuids(claims.iter().map(|(lease, _)| *lease));
    let replacements: Vec<_> = claims.iter().map(|(_, claim)| *claim).collect();
    let values = [leases].into_iter().chain(claim_arrays(&replacements)).chain([all.at.into()]);
    if has_displays(&replacements) {
        return connection.run(&REPLACE_DISPLAYED, View::Statement, values.chain([displays(&replacements)])).count();
    }
    connection.run(&REPLACE, View::Statement, values).count()
}

/// The unique index on the buckets, as messages call it.
pub(super) const BUCKET_INDEX: &str = "claims.claims (bucket_value, bucket_type)";

/// What to look for in it.
pub(super) fn bucket_key_parts(value: &str, bucket_type: i32) -> [KeyPart<'_>; 2] {
    [
        KeyPart { column: c"bucket_value", value: KeyValue::Text(value) },
        KeyPart { column: c"bucket_type", value: KeyValue::Int4(bucket_type) },
    ]
}

/// Whether another open transaction has written or locked a claim on the bucket, also one that nobody else can see yet.
pub fn is_in_flight(bucket: &Bucket) -> bool {
    is_in_flight_in(c"claims", bucket)
}

/// The same in a shard of the table.
pub fn is_in_flight_in(table: &CStr, bucket: &Bucket) -> bool {
    let key = bucket_key_parts(&bucket.value, bucket.bucket_type);
    known_or_raised(in_flight::is_in_flight(table, &key), BUCKET_INDEX)
}
