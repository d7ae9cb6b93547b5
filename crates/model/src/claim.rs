//! The parts of a batch: buckets, claims to create, claims to destroy.

use std::borrow::Cow;

use serde::Serialize;

/// A type and a value that must be unique across all cells. Locks are taken in its order: by type, then bytewise by
/// value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket<'a> {
    pub bucket_type: i32,
    /// The canonical form of the name.
    pub value: Cow<'a, str>,
}

/// A subject or a source: a type, and an id as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference<'a> {
    pub type_id: i32,
    pub id: Cow<'a, str>,
}

/// The number of no cell, which is the holder of reserved names.
pub const NOBODY: i64 = -1;

/// The operation of a batch on a bucket.
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
    /// The name as the caller wrote it, if that is not its canonical form.
    pub display: Option<Cow<'a, str>>,
}

/// A claim to destroy. The subject and the source, if present, must be those of the claim. So a cell with a stale row
/// cannot destroy a claim that belongs to another row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destroy<'a> {
    pub bucket: Bucket<'a>,
    pub subject: Option<Reference<'a>>,
    pub source: Option<Reference<'a>>,
}

impl Destroy<'_> {
    /// Returns whether a claim with this subject and source is the one to destroy.
    pub fn means(&self, subject: &Reference, source: &Reference) -> bool {
        self.subject.as_ref().is_none_or(|named| named == subject)
            && self.source.as_ref().is_none_or(|named| named == source)
    }
}
