//! Buckets and claims as arguments of statements.

use std::collections::BTreeMap;

use claims_model::{Bucket, Claim, Reference};
use uuid::Uuid;

use pg::query::{arguments, record};

/// Groups the values of buckets by type, in the order of the types. The values of a type keep their order.
pub fn values_by_type<'b>(buckets: impl IntoIterator<Item = &'b Bucket<'b>>) -> BTreeMap<i32, Vec<&'b str>> {
    let mut values: BTreeMap<i32, Vec<_>> = BTreeMap::new();
    for bucket in buckets {
        values.entry(bucket.bucket_type).or_default().push(&*bucket.value);
    }
    values
}

/// Returns the distinct types of buckets, and all their values.
pub fn types_and_names<'b>(buckets: &[&'b Bucket<'b>]) -> (Vec<i32>, Vec<&'b str>) {
    let by_type = values_by_type(buckets.iter().copied());
    (by_type.keys().copied().collect(), by_type.into_values().flatten().collect())
}

record! {
    pub struct BucketRow {
        bucket_type: i32,
        bucket_value: String,
    }
}

impl From<BucketRow> for Bucket<'static> {
    fn from(row: BucketRow) -> Self {
        Bucket { bucket_type: row.bucket_type, value: row.bucket_value.into() }
    }
}

record! {
    pub struct OwnedRow {
        pub(super) bucket_type: i32,
        pub(super) bucket_value: String,
        pub(super) subject_type: i32,
        pub(super) subject_id: String,
        pub(super) source_type: i32,
        pub(super) source_id: String,
    }
}

/// The subject and the source of a claim.
#[derive(Clone, Copy)]
pub struct Owner<'o> {
    pub subject: &'o Reference<'o>,
    pub source: &'o Reference<'o>,
}

/// The subject and the source of a stored claim.
pub struct StoredOwner {
    pub subject: Reference<'static>,
    pub source: Reference<'static>,
}

impl StoredOwner {
    pub fn owner(&self) -> Owner<'_> {
        Owner { subject: &self.subject, source: &self.source }
    }
}

/// A name with the subject and the source of its claim.
pub struct OwnedName {
    pub bucket: Bucket<'static>,
    pub owner: StoredOwner,
}

impl From<OwnedRow> for OwnedName {
    fn from(row: OwnedRow) -> Self {
        let bucket = Bucket { bucket_type: row.bucket_type, value: row.bucket_value.into() };
        let subject = Reference { type_id: row.subject_type, id: row.subject_id.into() };
        let source = Reference { type_id: row.source_type, id: row.source_id.into() };
        OwnedName { bucket, owner: StoredOwner { subject, source } }
    }
}

arguments! {
    /// A claim with a new uuid.
    pub struct NewClaim<'c> {
        pub uuid: Uuid,
        pub bucket_type: i32,
        pub bucket_value: &'c str,
        pub subject_type: i32,
        pub subject_id: &'c str,
        pub source_type: i32,
        pub source_id: &'c str,
        pub display_value: Option<&'c str>,
    }

    /// Claims as columns, with new uuids.
    pub struct NewClaims<'c> {
        pub uuid: Vec<Uuid>,
        pub bucket_type: Vec<i32>,
        pub bucket_value: Vec<&'c str>,
        pub subject_type: Vec<i32>,
        pub subject_id: Vec<&'c str>,
        pub source_type: Vec<i32>,
        pub source_id: Vec<&'c str>,
        pub display_value: Vec<Option<&'c str>>,
    }
}

impl<'c> NewClaim<'c> {
    pub fn of(claim: &'c Claim) -> Self {
        let Claim { bucket, subject, source, display } = claim;
        NewClaim {
            uuid: Uuid::now_v7(),
            bucket_type: bucket.bucket_type,
            bucket_value: &bucket.value,
            subject_type: subject.type_id,
            subject_id: &subject.id,
            source_type: source.type_id,
            source_id: &source.id,
            display_value: display.as_deref(),
        }
    }
}

impl<'c> NewClaims<'c> {
    pub fn of(claims: &[&'c Claim]) -> Self {
        let claims = claims.iter().copied();
        NewClaims {
            uuid: claims.clone().map(|_| Uuid::now_v7()).collect(),
            bucket_type: claims.clone().map(|claim| claim.bucket.bucket_type).collect(),
            bucket_value: claims.clone().map(|claim| &*claim.bucket.value).collect(),
            subject_type: claims.clone().map(|claim| claim.subject.type_id).collect(),
            subject_id: claims.clone().map(|claim| &*claim.subject.id).collect(),
            source_type: claims.clone().map(|claim| claim.source.type_id).collect(),
            source_id: claims.clone().map(|claim| &*claim.source.id).collect(),
            display_value: claims.map(|claim| claim.display.as_deref()).collect(),
        }
    }
}
