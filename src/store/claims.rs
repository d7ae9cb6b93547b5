//! Statements on claims: take them, and see what stands in the way.

use claims_model::conflict::Standing;
use claims_model::{Bucket, Claim};
use pgrx::Uuid as PgUuid;
use uuid::Uuid;

use super::leases::NewLease;
use crate::pg::clock::Moment;
use crate::pg::spi::{Connection, Value, View};
use crate::pg::xact;
use crate::statement;

/// Joins a claim to a requested bucket `b`; both sides inline to the expression of the unique index.
macro_rules! on_bucket {
    () => {
        " c.bucket_type = b.bucket_type
      AND claims.bucket_key(c.bucket_value) = claims.bucket_key(b.bucket_value)
      AND c.bucket_value = b.bucket_value "
    };
}
pub(super) use on_bucket;

/// New claims, under the lease $1 of cell $2 at time $3.
macro_rules! insert_claims {
    ($from:literal, $a:literal, $b:literal, $c:literal, $d:literal, $e:literal, $f:literal, $g:literal) => {
        concat!(
            "INSERT INTO claims.claims (uuid, bucket_type, bucket_value, subject_type, subject_id, source_type, source_id,
                                        creator_id, lease_uuid, status, created_at, updated_at)
             SELECT n.uuid, n.bucket_type, n.bucket_value, n.subject_type, n.subject_id, n.source_type, n.source_id,
                    $2, $1, 2, $3, $3
               FROM ", $from, "unnest(", $a, ", ", $b, ", ", $c, ", ", $d, ", ", $e, ", ", $f, ", ", $g, ")
                 AS n (uuid, bucket_type, bucket_value, subject_type, subject_id, source_type, source_id)"
        )
    };
}

/// Marks claims for destruction under the lease $1 of cell $2 at time $3.
macro_rules! mark_claims {
    ($from:literal, $a:literal, $b:literal) => {
        concat!(
            "UPDATE claims.claims c SET status = 3, lease_uuid = $1, updated_at = $3
               FROM ",
            $from,
            "unnest(",
            $a,
            ", ",
            $b,
            ") AS b (bucket_type, bucket_value)
              WHERE ",
            on_bucket!(),
            " AND c.status = 1 AND c.creator_id = $2"
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
    /// A lease with creates only, the most frequent batch: one statement.
    LEASE_AND_CREATE(UUIDOID, INT8OID, TIMESTAMPTZOID, JSONBOID, BYTEAOID, XID8OID,
                     UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID, INT4ARRAYOID, TEXTARRAYOID, INT4ARRAYOID, TEXTARRAYOID) = concat!(
        with_lease!(),
        insert_claims!("lease, ", "$7", "$8", "$9", "$10", "$11", "$12", "$13"));
    /// A lease with destroys only.
    LEASE_AND_MARK(UUIDOID, INT8OID, TIMESTAMPTZOID, JSONBOID, BYTEAOID, XID8OID, INT4ARRAYOID, TEXTARRAYOID) = concat!(
        with_lease!(),
        mark_claims!("lease, ", "$7", "$8"));
    LEASE(UUIDOID, INT8OID, TIMESTAMPTZOID, JSONBOID, BYTEAOID, XID8OID) = concat!(with_lease!(), "SELECT FROM lease");
    CREATE(UUIDOID, INT8OID, TIMESTAMPTZOID,
           UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID, INT4ARRAYOID, TEXTARRAYOID, INT4ARRAYOID, TEXTARRAYOID) =
        insert_claims!("", "$4", "$5", "$6", "$7", "$8", "$9", "$10");
    MARK(UUIDOID, INT8OID, TIMESTAMPTZOID, INT4ARRAYOID, TEXTARRAYOID) = mark_claims!("", "$4", "$5");
    /// What stands on the buckets. Locks nothing: a row that is only reported is nobody's business to lock.
    STANDING(INT4ARRAYOID, TEXTARRAYOID) = concat!(
        "SELECT b.place, c.creator_id, c.status = 1, c.xmax::text::bigint, l.created_at
           FROM unnest($1, $2) WITH ORDINALITY AS b (bucket_type, bucket_value, place)
           JOIN claims.claims c ON ", on_bucket!(), "
           LEFT JOIN claims.claim_leases l ON l.uuid = c.lease_uuid");
}

/// Buckets as the two arrays that statements take.
pub(super) struct BucketArrays<'b> {
    types: Vec<i32>,
    values: Vec<&'b str>,
}

impl<'b> BucketArrays<'b> {
    pub(super) fn new(buckets: impl IntoIterator<Item = &'b Bucket<'b>>) -> Self {
        let (types, values) = buckets.into_iter().map(|bucket| (bucket.bucket_type, &*bucket.value)).unzip();
        BucketArrays { types, values }
    }

    pub(super) fn into_values(self) -> [Value; 2] {
        [self.types.into(), self.values.into()]
    }
}

/// Claims to create as the seven arrays that statements take.
fn claim_arrays(claims: &[&Claim]) -> [Value; 7] {
    let each = |field: fn(&Claim) -> i32| claims.iter().map(|claim| field(claim)).collect::<Vec<_>>();
    let uuids: Vec<_> = claims.iter().map(|_| PgUuid::from_bytes(*Uuid::now_v7().as_bytes())).collect();
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
    let marked = || BucketArrays::new(destroys.iter().copied()).into_values();
    match (creates.is_empty(), destroys.is_empty()) {
        (false, true) => connection
            .run(&LEASE_AND_CREATE, View::Statement, lease.values().into_iter().chain(claim_arrays(creates)))
            .count(),
        (true, false) => {
            connection.run(&LEASE_AND_MARK, View::Statement, lease.values().into_iter().chain(marked())).count()
        }
        _ => {
            let created = connection
                .run(&LEASE_AND_CREATE, View::Statement, lease.values().into_iter().chain(claim_arrays(creates)))
                .count();
            created + mark(connection, lease, destroys)
        }
    }
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
    let values = lease.key_values().into_iter().chain(BucketArrays::new(destroys.iter().copied()).into_values());
    connection.run(&MARK, View::Statement, values).count()
}

/// A claim that stands on one of the buckets asked for, by the bucket's position.
pub struct Found {
    pub place: usize,
    pub standing: Standing,
    pub lease_made_at: Option<Moment>,
}

/// What is committed on these buckets right now.
pub fn standing_on(connection: &Connection, buckets: &[&Bucket]) -> Vec<Found> {
    let values = BucketArrays::new(buckets.iter().copied()).into_values();
    connection.run(&STANDING, View::Latest, values).map(|row| Found {
        place: usize::try_from(row.must::<i64>(1) - 1).unwrap_or(usize::MAX),
        standing: Standing {
            holder_cell_id: row.must(2),
            active: row.must(3),
            being_changed: u32::try_from(row.must::<i64>(4)).is_ok_and(xact::is_open_elsewhere),
        },
        lease_made_at: row.get(5),
    })
}
