//! What a batch is made of: buckets, claims to create, claims to destroy.

use std::borrow::Cow;

use serde::Serialize;

/// The thing that must be unique everywhere. Ordered by type, then bytewise by value: the order of all locks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket<'a> {
    pub bucket_type: i32,
    /// The canonical form of the name.
    pub value: Cow<'a, str>,
}

/// A subject or a source: a type and an id, kept as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference<'a> {
    pub type_id: i32,
    pub id: Cow<'a, str>,
}

/// Holds what is reserved: no cell has this number.
pub const NOBODY: i64 = -1;

/// What a batch wants to do with a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    Create,
    Destroy,
}

/// A claim to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim<'a> {
    pub bucket: Bucket<'a>,
    pub subject: Reference<'a>,
    pub source: Reference<'a>,
    /// The name as it was given, where its canonical form is another one.
    pub display: Option<Cow<'a, str>>,
}

/// A claim to destroy. What it names beside the bucket must be the claim's: a stale row must not give up the name of
/// another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destroy<'a> {
    pub bucket: Bucket<'a>,
    pub subject: Option<Reference<'a>>,
    pub source: Option<Reference<'a>>,
}

impl Destroy<'_> {
    /// Whether it asks for more than the bucket.
    pub fn names_more(&self) -> bool {
        self.subject.is_some() || self.source.is_some()
    }

    /// Whether a claim with this subject and source is the one that it means.
    pub fn means(&self, subject: &Reference, source: &Reference) -> bool {
        self.subject.as_ref().is_none_or(|named| named == subject)
            && self.source.as_ref().is_none_or(|named| named == source)
    }
}
