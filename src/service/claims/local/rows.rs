//! Rows of claims as they are written and compared without statements.

use claims_model::{Bucket, Claim, Destroy, Reference};
use uuid::Uuid;

use crate::kernel::direct::layouts::claim;
use crate::service::claims::buckets::NewClaim;
use crate::service::claims::rows::ACTIVE;
use pg::clock::Moment;
use pg::direct::Row as StoredRow;
use pg::index::KeyValue;
use pg::spi::Value;

/// Lock timeout in milliseconds while rows are written that are new or locked already: the wait is for relation extension.
pub const EXTENSION_LOCK_TIMEOUT_MS: i64 = 100;

/// Returns the changes that make an existing claim the one that replaces it.
pub fn replacement(by: &Claim, at: Moment) -> [(usize, Value); 10] {
    let new = NewClaim::of(by);
    [
        (claim::UUID, new.uuid.into()),
        (claim::SUBJECT_TYPE, new.subject_type.into()),
        (claim::SUBJECT_ID, new.subject_id.into()),
        (claim::SOURCE_TYPE, new.source_type.into()),
        (claim::SOURCE_ID, new.source_id.into()),
        (claim::STATUS, ACTIVE.into()),
        (claim::LEASE_UUID, None::<Uuid>.into()),
        (claim::CREATED_AT, at.into()),
        (claim::UPDATED_AT, at.into()),
        (claim::DISPLAY_VALUE, new.display_value.into()),
    ]
}

/// Returns the row of a new claim, with the lease that holds it and its status, in the order of [`layouts::CLAIMS`](crate::kernel::direct::layouts::CLAIMS).
pub fn new_row(claim: &Claim, cell_id: i64, (lease, status): (Option<Uuid>, i16), at: Moment) -> [Value; 15] {
    let new = NewClaim::of(claim);
    [
        new.uuid.into(),
        new.bucket_type.into(),
        new.bucket_value.into(),
        new.subject_type.into(),
        new.subject_id.into(),
        new.source_type.into(),
        new.source_id.into(),
        cell_id.into(),
        lease.into(),
        status.into(),
        at.into(),
        at.into(),
        new.display_value.into(),
        // Only names that are kept back have these.
        None::<i64>.into(),
        None::<Moment>.into(),
    ]
}

/// Returns whether a claim is the cell's, is ACTIVE, and is the one that a destroy means.
pub fn is_owned(row: &StoredRow, cell_id: i64, destroy: &Destroy) -> bool {
    row.get(claim::STATUS) == Some(ACTIVE) && row.get(claim::CREATOR_ID) == Some(cell_id) && is_meant(destroy, row)
}

/// Returns whether a claim has the subject and the source of its destroy. Parts that the destroy does not name are not compared.
fn is_meant(destroy: &Destroy, row: &StoredRow) -> bool {
    let is_it = |named: &Option<Reference>, type_id: usize, id: usize| {
        named.as_ref().is_none_or(|named| {
            row.get(type_id) == Some(named.type_id) && row.get::<String>(id).as_deref() == Some(&*named.id)
        })
    };
    is_it(&destroy.subject, claim::SUBJECT_TYPE, claim::SUBJECT_ID)
        && is_it(&destroy.source, claim::SOURCE_TYPE, claim::SOURCE_ID)
}

/// Returns the subject or the source of a claim.
pub fn reference(row: &StoredRow, type_id: usize, id: usize) -> Option<Reference<'static>> {
    Some(Reference { type_id: row.get(type_id)?, id: row.get::<String>(id)?.into() })
}

/// Returns the key of a bucket in the unique index.
pub fn key_of<'b>(bucket: &'b Bucket) -> [KeyValue<'b>; 2] {
    [KeyValue::Text(&bucket.value), KeyValue::Int4(bucket.bucket_type)]
}
