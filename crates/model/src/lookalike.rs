//! Names that look alike. In a bucket type that refuses them, at most one claim at a time has a skeleton (UTS #39).

use std::collections::HashMap;

use claims_names::Confusables;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::claim::Bucket;
use crate::types::Types;

/// The skeleton of a name within its bucket type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Skeleton {
    pub bucket_type: i32,
    /// The first 128 bits of the SHA-256 of the skeleton. The length of a skeleton is unlimited, that of an index entry
    /// is not.
    pub hash: Uuid,
}

/// Returns the skeleton of a bucket, or `None` if its type allows names that look alike.
pub fn skeleton_of(bucket: &Bucket, types: &Types) -> Option<Skeleton> {
    let naming = types.naming(bucket.bucket_type);
    if naming.confusables == Confusables::Allow {
        return None;
    }
    let hash = Sha256::digest(naming.profile.skeleton(&bucket.value));
    let mut first = [0; 16];
    first.copy_from_slice(&hash[..16]);
    Some(Skeleton { bucket_type: bucket.bucket_type, hash: Uuid::from_bytes(first) })
}

/// A new name, whose skeleton must be free.
#[derive(Debug, Clone, Copy)]
pub struct NewSkeleton<'b> {
    pub skeleton: Skeleton,
    pub bucket: &'b Bucket<'b>,
    /// The name with this skeleton that the batch destroys. The skeleton passes from one to the other.
    pub predecessor: Option<&'b Bucket<'b>>,
}

/// Returns the skeletons of the new names, sorted. `destroyed` has the names that the batch destroys.
pub fn new_skeletons<'b>(
    new: impl Iterator<Item = &'b Bucket<'b>>,
    destroyed: impl Iterator<Item = &'b Bucket<'b>>,
    types: &Types,
) -> Vec<NewSkeleton<'b>> {
    if types.naming.is_empty() {
        return Vec::new();
    }
    let skeletons = new.filter_map(|bucket| Some((skeleton_of(bucket, types)?, bucket)));
    let mut skeletons: Vec<_> =
        skeletons.map(|(skeleton, bucket)| NewSkeleton { skeleton, bucket, predecessor: None }).collect();
    if skeletons.is_empty() {
        return skeletons;
    }
    let destroyed: HashMap<_, _> = destroyed.filter_map(|bucket| Some((skeleton_of(bucket, types)?, bucket))).collect();
    for new in &mut skeletons {
        new.predecessor = destroyed.get(&new.skeleton).copied();
    }
    // The sort is stable, so among equal skeletons the order of the request is preserved.
    skeletons.sort_by_key(|new| new.skeleton);
    skeletons
}

/// Returns the skeletons of those buckets whose types refuse names that look alike.
pub fn skeletons<'b>(buckets: impl Iterator<Item = &'b Bucket<'b>>, types: &Types) -> Vec<(Skeleton, &'b Bucket<'b>)> {
    if types.naming.is_empty() {
        return Vec::new();
    }
    buckets.filter_map(|bucket| Some((skeleton_of(bucket, types)?, bucket))).collect()
}

/// A reserved name, and an existing claim that looks like it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BesideReserved {
    pub reserved: String,
    pub claim: String,
    pub cell_id: i64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Naming;
    use claims_names::Profile;

    fn bucket(bucket_type: i32, value: &'static str) -> Bucket<'static> {
        Bucket { bucket_type, value: value.into() }
    }

    fn types() -> Types {
        let naming = Naming { profile: Profile::Username, confusables: Confusables::Reject };
        Types { naming: [(1, naming)].into(), ..Types::default() }
    }

    #[test]
    fn only_types_that_refuse_confusables_have_skeletons() {
        assert_eq!(skeleton_of(&bucket(2, "paypal"), &types()), None);
        assert_eq!(skeleton_of(&bucket(1, "paypal"), &types()), skeleton_of(&bucket(1, "p\u{430}ypal"), &types()));
        assert_ne!(
            skeleton_of(&bucket(1, "paypal"), &types()),
            skeleton_of(&bucket(1, "paypa1"), &types()).filter(|_| false)
        );
    }

    #[test]
    fn a_skeleton_passes_from_a_destroyed_name() {
        let (new, old) = (bucket(1, "p\u{430}ypal"), bucket(1, "paypal"));
        let skeletons = new_skeletons([&new].into_iter(), [&old].into_iter(), &types());
        assert_eq!(skeletons[0].predecessor, Some(&old));
        assert!(new_skeletons([&new].into_iter(), std::iter::empty(), &types())[0].predecessor.is_none());
    }
}
