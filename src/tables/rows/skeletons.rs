//! Rows of skeletons. Each skeleton has one row for a claim, and one for each reserved name. The latter stays as long as the name
//! is reserved, even if the claim is deleted.

use claims_model::Bucket;

/// The kind of name that a row of skeletons belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bearing {
    Claimed,
    Reserved,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkeletonChange {
    /// Delete it, because its name is no longer reserved.
    Unreserve,
    /// Delete it, because its name is no longer claimed.
    Free,
    /// Give it to the name that replaces its bearer, because the lease of the new name has committed.
    PassOn,
    /// Leave it with its bearer, because the lease of the name that was to replace it was rolled back.
    Keep,
}

/// The names that have a skeleton.
#[derive(Default)]
pub struct Bearers {
    /// The claim that has it.
    pub bearer: Option<Bucket<'static>>,
    /// The claim that gets it when its lease commits.
    pub successor: Option<Bucket<'static>>,
    pub reserved: Vec<Bucket<'static>>,
}

impl Bearers {
    /// Returns all names, first those that do not depend on a lease.
    pub fn names(&self) -> impl Iterator<Item = &Bucket<'static>> {
        self.reserved.iter().chain(&self.bearer).chain(&self.successor)
    }
}
