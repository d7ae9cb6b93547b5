//! Buckets and claims as arguments of statements.

use std::collections::BTreeMap;

use claims_model::{Bucket, Claim};
use pgrx::pg_sys;
use uuid::Uuid;

use pg::spi::Value;
use pg::uuid::pg_uuid;

/// Groups the values of buckets by type, in the order of the types. The values of a type keep their order.
pub fn values_by_type<'b>(buckets: impl IntoIterator<Item = &'b Bucket<'b>>) -> BTreeMap<i32, Vec<&'b str>> {
    let mut values: BTreeMap<i32, Vec<_>> = BTreeMap::new();
    for bucket in buckets {
        values.entry(bucket.bucket_type).or_default().push(&*bucket.value);
    }
    values
}

/// Returns the distinct types of buckets, and all their values.
pub fn types_and_values(buckets: &[&Bucket]) -> [Value; 2] {
    let by_type = values_by_type(buckets.iter().copied());
    let types: Vec<i32> = by_type.keys().copied().collect();
    let values: Vec<&str> = by_type.into_values().flatten().collect();
    [types.into(), values.into()]
}

/// Returns seven values for inserting a claim: a new uuid, bucket, subject and source.
pub fn claim_values(claim: &Claim) -> [Value; 7] {
    let Claim { bucket, subject, source, .. } = claim;
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

/// Returns seven arrays for inserting claims.
pub fn claim_arrays(claims: &[&Claim]) -> [Value; 7] {
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

/// Returns the values of [claim_values], and the display value of the name.
pub fn displayed_values(claim: &Claim) -> impl Iterator<Item = Value> {
    claim_values(claim).into_iter().chain([claim.display.as_deref().into()])
}

/// The types of the arrays of [displayed_arrays].
pub const DISPLAYED_ARRAYS: [pg_sys::Oid; 8] = [
    pg_sys::UUIDARRAYOID,
    pg_sys::INT4ARRAYOID,
    pg_sys::TEXTARRAYOID,
    pg_sys::INT4ARRAYOID,
    pg_sys::TEXTARRAYOID,
    pg_sys::INT4ARRAYOID,
    pg_sys::TEXTARRAYOID,
    pg_sys::TEXTARRAYOID,
];

/// Returns the arrays of [claim_arrays], and the display values.
pub fn displayed_arrays(claims: &[&Claim]) -> impl Iterator<Item = Value> {
    claim_arrays(claims).into_iter().chain([displays(claims)])
}

/// Returns the display values of names, as an array.
pub fn displays(claims: &[&Claim]) -> Value {
    claims.iter().map(|claim| claim.display.as_deref()).collect::<Vec<Option<&str>>>().into()
}
