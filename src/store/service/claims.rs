//! Statements on claims: take them, and see what stands in the way.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use claims_model::conflict::Standing;
use claims_model::key::bucket_key;
use claims_model::{Bucket, Claim};
use uuid::Uuid;

use super::known_or_raised;
use super::leases::NewLease;
use crate::pg::clock::Moment;
use crate::pg::in_flight;
use crate::pg::index::{KeyPart, KeyValue};
use crate::pg::spi::{Connection, Row, Value, View};
use crate::pg::uuid::pg_uuid;
use crate::statement;

/// Into these columns new claims are put.
macro_rules! insert_into {
    () => {
        "INSERT INTO claims.claims (uuid, bucket_type, bucket_value, subject_type, subject_id, source_type, source_id,
                                    creator_id, lease_uuid, status, created_at, updated_at) "
    };
}

/// New claims, under the lease $1 of cell $2 at time $3.
macro_rules! insert_claims {
    ($from:literal, $a:literal, $b:literal, $c:literal, $d:literal, $e:literal, $f:literal, $g:literal) => {
        concat!(
            insert_into!(),
            "SELECT n.uuid, n.bucket_type, n.bucket_value, n.subject_type, n.subject_id, n.source_type, n.source_id,
                    $2, $1, 2, $3, $3
               FROM ",
            $from,
            "unnest(",
            $a,
            ", ",
            $b,
            ", ",
            $c,
            ", ",
            $d,
            ", ",
            $e,
            ", ",
            $f,
            ", ",
            $g,
            ")
                 AS n (uuid, bucket_type, bucket_value, subject_type, subject_id, source_type, source_id)"
        )
    };
}

/// Marks claims of one bucket type for destruction under the lease $1 of cell $2 at time $3. No join: one relation and
/// its unique index leave the planner nothing to choose.
macro_rules! mark_claims {
    ($type:literal, $keys:literal) => {
        concat!(
            "UPDATE claims.claims c SET status = 3, lease_uuid = $1, updated_at = $3
              WHERE claims.bucket_key(c.bucket_value) = ANY (",
            $keys,
            ") AND c.bucket_type = ",
            $type,
            "
                AND c.status = 1 AND c.creator_id IS NOT DISTINCT FROM $2"
        )
    };
}

/// The lease row, and behind it (the other parts read from `lease`) the claims.
macro_rules! with_lease {
    () => {
        "WITH lease AS (INSERT INTO claims.claim_leases (uuid, creator_id, created_at, updated_at, payload, request_digest, cell_xid)
                        VALUES ($1, $2, $3, $3, $4, $5, $6) RETURNING 1) "
    };
}

statement! {
    /// A lease with one create, the most frequent batch. Arrays of one element each would take a third of its time.
    LEASE_AND_CREATE_ONE(UUIDOID, INT8OID, TIMESTAMPTZOID, JSONBOID, BYTEAOID, XID8OID,
                         UUIDOID, INT4OID, TEXTOID, INT4OID, TEXTOID, INT4OID, TEXTOID) = concat!(
        with_lease!(), insert_into!(), "SELECT $7, $8, $9, $10, $11, $12, $13, $2, $1, 2, $3, $3 FROM lease");
    /// A lease and creates: one statement.
    LEASE_AND_CREATE(UUIDOID, INT8OID, TIMESTAMPTZOID, JSONBOID, BYTEAOID, XID8OID,
                     UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID, INT4ARRAYOID, TEXTARRAYOID, INT4ARRAYOID, TEXTARRAYOID) = concat!(
        with_lease!(),
        insert_claims!("lease, ", "$7", "$8", "$9", "$10", "$11", "$12", "$13"));
    LEASE(UUIDOID, INT8OID, TIMESTAMPTZOID, JSONBOID, BYTEAOID, XID8OID) = concat!(with_lease!(), "SELECT FROM lease");
    CREATE(UUIDOID, INT8OID, TIMESTAMPTZOID,
           UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID, INT4ARRAYOID, TEXTARRAYOID, INT4ARRAYOID, TEXTARRAYOID) =
        insert_claims!("", "$4", "$5", "$6", "$7", "$8", "$9", "$10");
    MARK(UUIDOID, INT8OID, TIMESTAMPTZOID, INT4OID, TEXTARRAYOID) = mark_claims!("$4", "$5");
    /// What stands on the buckets. Locks nothing: a row that is only reported is nobody's business to lock.
    STANDING(INT4OID, TEXTARRAYOID) =
        "SELECT c.bucket_value, c.creator_id, c.status = 1,
                (SELECT l.created_at FROM claims.claim_leases l WHERE l.uuid = c.lease_uuid)
           FROM claims.claims c
          WHERE claims.bucket_key(c.bucket_value) = ANY ($2) AND c.bucket_type = $1";
}

/// The keys of buckets, type by type in the order of the types, keys in the order given.
pub(super) fn keys_by_type<'b>(buckets: impl IntoIterator<Item = &'b Bucket<'b>>) -> BTreeMap<i32, Vec<Cow<'b, str>>> {
    let mut keys: BTreeMap<i32, Vec<_>> = BTreeMap::new();
    for bucket in buckets {
        keys.entry(bucket.bucket_type).or_default().push(bucket_key(&bucket.value));
    }
    keys
}

/// Keys as an argument.
pub(super) fn key_array(keys: &[Cow<str>]) -> Value {
    keys.iter().map(|key| &**key).collect::<Vec<&str>>().into()
}

/// A claim to put in, as seven values of a statement: a new uuid, bucket, subject, source.
pub(super) fn claim_values(claim: &Claim) -> [Value; 7] {
    let Claim { bucket, subject, source } = claim;
    [
        pg_uuid(Uuid::now_v7()).into(),
        bucket.bucket_type.into(),
        (&*bucket.value).into(),
        subject.type_id.into(),
        (&*subject.id).into(),
        source.type_id.into(),
        (&*source.id).into(),
    ]
}

/// Claims to create as the seven arrays that statements take.
fn claim_arrays(claims: &[&Claim]) -> [Value; 7] {
    let each = |field: fn(&Claim) -> i32| claims.iter().map(|claim| field(claim)).collect::<Vec<_>>();
    let uuids: Vec<_> = claims.iter().map(|_| pg_uuid(Uuid::now_v7())).collect();
    [
        uuids.into(),
        each(|claim| claim.bucket.bucket_type).into(),
        claims.iter().map(|claim| &*claim.bucket.value).collect::<Vec<_>>().into(),
        each(|claim| claim.subject.type_id).into(),
        claims.iter().map(|claim| &*claim.subject.id).collect::<Vec<_>>().into(),
        each(|claim| claim.source.type_id).into(),
        claims.iter().map(|claim| &*claim.source.id).collect::<Vec<_>>().into(),
    ]
}

/// Puts the lease and all its claims in, in bucket order; returns how many claims it got. A bucket that exists is a
/// unique violation; a row that another transaction holds runs into `lock_timeout`.
pub fn take_all(connection: &Connection, lease: &NewLease, creates: &[&Claim], destroys: &[&Bucket]) -> usize {
    if creates.is_empty() {
        take_lease(connection, lease);
        return mark(connection, lease, destroys);
    }
    let lease_values = lease.values().into_iter();
    let created = match creates {
        [only] => connection.run(&LEASE_AND_CREATE_ONE, View::Statement, lease_values.chain(claim_values(only))),
        _ => connection.run(&LEASE_AND_CREATE, View::Statement, lease_values.chain(claim_arrays(creates))),
    };
    let created = created.count();
    if destroys.is_empty() { created } else { created + mark(connection, lease, destroys) }
}

/// Puts in only the lease.
pub fn take_lease(connection: &Connection, lease: &NewLease) {
    connection.run(&LEASE, View::Statement, lease.values());
}

/// Creates claims under a lease that is there already.
pub fn create(connection: &Connection, lease: &NewLease, creates: &[&Claim]) -> usize {
    connection.run(&CREATE, View::Statement, lease.key_values().into_iter().chain(claim_arrays(creates))).count()
}

/// Marks claims of the cell that are ACTIVE; the others are left alone and not counted.
pub fn mark(connection: &Connection, lease: &NewLease, destroys: &[&Bucket]) -> usize {
    let mark_type = |(bucket_type, keys): (&i32, &Vec<Cow<str>>)| {
        let values = lease.key_values().into_iter().chain([(*bucket_type).into(), key_array(keys)]);
        connection.run(&MARK, View::Statement, values).count()
    };
    keys_by_type(destroys.iter().copied()).iter().map(mark_type).sum()
}

/// A claim that stands on one of the buckets asked for.
pub struct Found {
    pub standing: Standing,
    pub lease_made_at: Option<Moment>,
}

/// What is committed on these buckets right now.
pub fn standing_on(connection: &Connection, buckets: &[&Bucket]) -> HashMap<Bucket<'static>, Found> {
    let of_type = |(bucket_type, keys): (&i32, &Vec<Cow<str>>)| {
        let rows = connection.run(&STANDING, View::Latest, [(*bucket_type).into(), key_array(keys)]);
        rows.map(|row| (Bucket { bucket_type: *bucket_type, value: row.must::<String>(1).into() }, found(&row)))
    };
    keys_by_type(buckets.iter().copied()).iter().flat_map(of_type).collect()
}

/// The unique index on the buckets, as messages call it.
pub(super) const BUCKET_INDEX: &str = "claims.claims (bucket_value, bucket_type)";

/// What to look for in it.
pub(super) fn bucket_key_parts(key: &str, bucket_type: i32) -> [KeyPart<'_>; 2] {
    [
        KeyPart { column: c"bucket_value", value: KeyValue::Text(key) },
        KeyPart { column: c"bucket_type", value: KeyValue::Int4(bucket_type) },
    ]
}

/// Whether another open transaction has written or locked a claim on the bucket, also one that nobody else can see yet.
pub fn is_in_flight(bucket: &Bucket) -> bool {
    let key = bucket_key(&bucket.value);
    known_or_raised(in_flight::is_in_flight(c"claims", &bucket_key_parts(&key, bucket.bucket_type)), BUCKET_INDEX)
}

fn found(row: &Row) -> Found {
    Found { standing: Standing { holder_cell_id: row.must(2), active: row.must(3) }, lease_made_at: row.get(4) }
}
