//! Names that look alike, where their type refuses that: each has a skeleton, and a skeleton has one claim at a time.

use std::collections::HashMap;

use claims_names::Confusables;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::claim::Bucket;
use crate::types::Types;

/// The place that a look of a name takes in its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Look {
    pub bucket_type: i32,
    /// The first 128 bits of SHA-256 over the skeleton: an entry of an index has a limit, a skeleton has none.
    pub skeleton: Uuid,
}

/// The look of a bucket; `None`: its type minds none.
pub fn look_of(bucket: &Bucket, types: &Types) -> Option<Look> {
    let naming = types.naming(bucket.bucket_type);
    if naming.confusables == Confusables::Allow {
        return None;
    }
    let hash = Sha256::digest(naming.profile.skeleton(&bucket.value));
    let mut first = [0; 16];
    first.copy_from_slice(&hash[..16]);
    Some(Look { bucket_type: bucket.bucket_type, skeleton: Uuid::from_bytes(first) })
}

/// A name that needs its look for itself.
#[derive(Debug, Clone, Copy)]
pub struct NewLook<'b> {
    pub look: Look,
    pub bucket: &'b Bucket<'b>,
    /// The name of the same look that the batch gives up: the look goes from one to the other.
    pub predecessor: Option<&'b Bucket<'b>>,
}

/// The looks of new names, in the order of the looks; `given_up` are the names that the batch destroys.
pub fn new_looks<'b>(
    new: impl Iterator<Item = &'b Bucket<'b>>,
    given_up: impl Iterator<Item = &'b Bucket<'b>>,
    types: &Types,
) -> Vec<NewLook<'b>> {
    if types.naming.is_empty() {
        return Vec::new();
    }
    let looks = new.filter_map(|bucket| Some((look_of(bucket, types)?, bucket)));
    let mut looks: Vec<_> = looks.map(|(look, bucket)| NewLook { look, bucket, predecessor: None }).collect();
    if looks.is_empty() {
        return looks;
    }
    let given_up: HashMap<_, _> = given_up.filter_map(|bucket| Some((look_of(bucket, types)?, bucket))).collect();
    for new in &mut looks {
        new.predecessor = given_up.get(&new.look).copied();
    }
    // Of two that look alike the one that came first in the request stays first.
    looks.sort_by_key(|new| new.look);
    looks
}

/// The looks of buckets, of those whose types mind them.
pub fn looks<'b>(buckets: impl Iterator<Item = &'b Bucket<'b>>, types: &Types) -> Vec<(Look, &'b Bucket<'b>)> {
    if types.naming.is_empty() {
        return Vec::new();
    }
    buckets.filter_map(|bucket| Some((look_of(bucket, types)?, bucket))).collect()
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
    fn only_types_that_mind_have_looks() {
        assert_eq!(look_of(&bucket(2, "paypal"), &types()), None);
        assert_eq!(look_of(&bucket(1, "paypal"), &types()), look_of(&bucket(1, "p\u{430}ypal"), &types()));
        assert_ne!(look_of(&bucket(1, "paypal"), &types()), look_of(&bucket(1, "paypa1"), &types()).filter(|_| false));
    }

    #[test]
    fn a_look_goes_from_a_name_that_is_given_up() {
        let (new, old) = (bucket(1, "p\u{430}ypal"), bucket(1, "paypal"));
        let looks = new_looks([&new].into_iter(), [&old].into_iter(), &types());
        assert_eq!(looks[0].predecessor, Some(&old));
        assert!(new_looks([&new].into_iter(), std::iter::empty(), &types())[0].predecessor.is_none());
    }
}
