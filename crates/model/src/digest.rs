//! The digest of a set of claims. Two sets have equal digests exactly if their claims are equal, in whatever order they
//! were added.
//!
//! It is the sum, modulo 2^256, of the SHA-256 of each claim, together with their number: the additive multiset hash of
//! Bellare and Micciancio ("A new paradigm for collision-free hashing: incrementality at reduced cost", 1997) and
//! Clarke and others ("Incremental multiset hash functions", 2003). It is a sum and not an exclusive or, so that two
//! equal claims do not cancel each other. It protects against errors, not against forgery: somebody who can choose
//! hundreds of thousands of claims on both sides could make two unequal sets agree. Both sides belong to one cell, so
//! nobody gains by that.
//!
//! Because it is a sum, the digests of a range and of its first half give the digest of the second half.

use sha2::{Digest as _, Sha256};

pub const BYTES: usize = 32;

/// A claim as input of a digest. Types are names, because their numbers may differ between databases.
pub struct Entry<'a> {
    pub bucket_type: &'a str,
    pub bucket_value: &'a str,
    pub subject_type: &'a str,
    pub subject_id: &'a str,
    pub source_id: &'a str,
}

impl Entry<'_> {
    /// Returns the SHA-256 of the five texts. The length before each text makes the boundaries unambiguous.
    fn hash(&self) -> [u8; BYTES] {
        let mut hash = Sha256::new();
        for text in [self.bucket_type, self.bucket_value, self.subject_type, self.subject_id, self.source_id] {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text.as_bytes());
        }
        hash.finalize().into()
    }
}

/// The digest of a multiset of claims.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Digest {
    /// The number of claims.
    pub records: i64,
    /// The limbs of the sum, least significant first.
    sum: [u64; 4],
}

impl Digest {
    pub fn add(&mut self, entry: &Entry) {
        self.records += 1;
        self.sum = sum(self.sum, limbs(entry.hash()));
    }

    /// Returns the digest of the claims in `self` that are not in `part`, which must be a subset.
    pub fn without(&self, part: &Digest) -> Digest {
        Digest { records: self.records - part.records, sum: sum(self.sum, negative(part.sum)) }
    }

    /// Returns the sum, most significant byte first.
    pub fn to_bytes(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        for (place, limb) in bytes.chunks_exact_mut(8).zip(self.sum.iter().rev()) {
            place.copy_from_slice(&limb.to_be_bytes());
        }
        bytes
    }

    /// Builds a digest from its bytes. Returns `None` if their number is wrong.
    pub fn from_parts(records: i64, bytes: &[u8]) -> Option<Digest> {
        Some(Digest { records, sum: limbs(bytes.try_into().ok()?) })
    }
}

fn limbs(bytes: [u8; BYTES]) -> [u64; 4] {
    let mut limbs = [0; 4];
    for (limb, place) in limbs.iter_mut().rev().zip(bytes.chunks_exact(8)) {
        *limb = place.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    }
    limbs
}

fn sum(a: [u64; 4], b: [u64; 4]) -> [u64; 4] {
    let mut carry = 0_u128;
    std::array::from_fn(|at| {
        let sum = u128::from(a[at]) + u128::from(b[at]) + carry;
        carry = sum >> 64;
        sum as u64
    })
}

/// Returns the additive inverse.
fn negative(a: [u64; 4]) -> [u64; 4] {
    sum(a.map(|limb| !limb), [1, 0, 0, 0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry<'a>(value: &'a str, id: &'a str) -> Entry<'a> {
        Entry { bucket_type: "ROUTES", bucket_value: value, subject_type: "GROUP", subject_id: "1", source_id: id }
    }

    fn digest(values: &[String]) -> Digest {
        let mut digest = Digest::default();
        values.iter().for_each(|value| digest.add(&entry(value, "1")));
        digest
    }

    #[test]
    fn fields_do_not_run_into_each_other() {
        let (mut one, mut other) = (Digest::default(), Digest::default());
        one.add(&entry("ab", "c"));
        other.add(&entry("a", "bc"));
        assert_ne!(one, other);
    }

    #[test]
    fn equal_claims_do_not_cancel_each_other() {
        let twice = digest(&["a".into(), "a".into()]);
        assert_ne!(twice.to_bytes(), Digest::default().to_bytes());
    }

    /// The digest is stored and sent, so it must not change between versions: service and cell may have different ones.
    #[test]
    fn one_known_digest() {
        let mut known = Digest::default();
        known.add(&entry("gitlab-org", "1"));
        let mut by_hand = Vec::new();
        for text in ["ROUTES", "gitlab-org", "GROUP", "1", "1"] {
            by_hand.extend((text.len() as u64).to_be_bytes());
            by_hand.extend(text.as_bytes());
        }
        assert_eq!(known.to_bytes(), <[u8; 32]>::from(Sha256::digest(&by_hand)));
    }

    proptest! {
        #[test]
        fn order_does_not_matter(mut values: Vec<String>) {
            let before = digest(&values);
            values.reverse();
            prop_assert_eq!(before, digest(&values));
        }

        #[test]
        fn half_and_whole_give_the_other_half(values: Vec<String>, split in 0_usize..100) {
            let (left, right) = values.split_at(split.min(values.len()));
            prop_assert_eq!(digest(&values).without(&digest(left)), digest(right));
        }

        #[test]
        fn bytes_and_back(values: Vec<String>) {
            let digest = digest(&values);
            prop_assert_eq!(Digest::from_parts(digest.records, &digest.to_bytes()), Some(digest));
        }

        #[test]
        fn another_value_is_another_digest(values: Vec<String>, more: String) {
            let mut longer = values.clone();
            longer.push(more);
            prop_assert_ne!(digest(&values).to_bytes(), digest(&longer).to_bytes());
        }
    }
}
