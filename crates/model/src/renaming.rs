//! The effect of another profile on the names of a type: which names become one, and which look alike where the type
//! refuses that.
//!
//! A million names are compared by 128 bits of their digests. Only those that collide are compared by their letters.

use std::collections::{BTreeMap, HashMap, HashSet};

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::claim::{Bucket, NOBODY};
use crate::lookalike::{BesideReserved, Skeleton, skeleton_of};
use crate::types::Types;

/// The largest number of collisions that are reported, by name.
pub const MAX_REPORTED: usize = 10_000;

/// The type whose names get another profile, and all types with that profile.
#[derive(Clone, Copy)]
pub struct ChangedType<'t> {
    pub bucket_type: i32,
    pub types: &'t Types,
}

/// A first pass over all names.
#[derive(Default)]
pub struct Survey {
    seen: HashSet<Uuid>,
    /// By skeleton, the digest of the claim that has it.
    skeletons: HashMap<Skeleton, Uuid>,
    /// The skeletons of reserved names.
    reserved: HashSet<Skeleton>,
    /// The digests of canonical forms that several names have, and the skeletons that several claims have.
    doubled: HashSet<Uuid>,
    alike: HashSet<Skeleton>,
    forbidden: usize,
}

impl Survey {
    /// Adds a name as the caller wrote it. Returns its canonical form and its skeleton, or `None` if the profile
    /// refuses it.
    pub fn add(
        &mut self,
        ChangedType { bucket_type, types }: ChangedType,
        given: &str,
        cell_id: i64,
    ) -> Option<(String, Option<Skeleton>)> {
        let Ok(canonical) = types.canonical(bucket_type, given) else {
            self.forbidden += 1;
            return None;
        };
        let digest = digest(&canonical);
        if !self.seen.insert(digest) {
            self.doubled.insert(digest);
        }
        let bucket = Bucket { bucket_type, value: canonical };
        let skeleton = skeleton_of(&bucket, types);
        // A reservation is valid beside existing claims that look like it.
        match skeleton {
            Some(skeleton) if cell_id == NOBODY => {
                self.reserved.insert(skeleton);
            }
            Some(skeleton) if *self.skeletons.entry(skeleton).or_insert(digest) != digest => {
                self.alike.insert(skeleton);
            }
            _ => {}
        }
        Some((bucket.value.into_owned(), skeleton))
    }

    /// Returns whether every name can get its new canonical form.
    pub fn is_clean(&self) -> bool {
        self.doubled.is_empty() && self.alike.is_empty() && self.forbidden == 0
    }

    /// Returns whether a claim looks like a reserved name. Such a claim is no collision: it stays, and nobody can claim
    /// either name.
    pub fn has_claims_beside_reserved(&self) -> bool {
        self.reserved.iter().any(|skeleton| self.is_beside_reserved(skeleton))
    }

    fn is_beside_reserved(&self, skeleton: &Skeleton) -> bool {
        self.reserved.contains(skeleton) && self.skeletons.contains_key(skeleton)
    }
}

/// Names that collide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collision {
    /// The canonical form that all of them have, or `None` if the profile refuses the name or they only look alike.
    pub canonical: Option<String>,
    /// The names as they are stored, with their cells.
    pub names: Vec<(String, i64)>,
}

/// A second pass, over the names that the first pass found.
#[derive(Default)]
pub struct Collisions {
    by_name: BTreeMap<String, Vec<(String, i64)>>,
    by_skeleton: BTreeMap<Skeleton, Vec<(String, i64)>>,
    forbidden: Vec<(String, i64)>,
    reported: usize,
}

impl Collisions {
    /// Adds a name: as it is stored, and as the caller wrote it.
    pub fn add(
        &mut self,
        ChangedType { bucket_type, types }: ChangedType,
        survey: &Survey,
        (stored, given): (&str, &str),
        cell_id: i64,
    ) {
        if self.reported >= MAX_REPORTED {
            return;
        }
        let name = || (stored.to_owned(), cell_id);
        let reported = match types.canonical(bucket_type, given) {
            Err(_) => {
                self.forbidden.push(name());
                true
            }
            Ok(canonical) if survey.doubled.contains(&digest(&canonical)) => {
                self.by_name.entry(canonical.into_owned()).or_default().push(name());
                true
            }
            Ok(value) => match skeleton_of(&Bucket { bucket_type, value }, types) {
                Some(skeleton) if survey.alike.contains(&skeleton) && cell_id != NOBODY => {
                    self.by_skeleton.entry(skeleton).or_default().push(name());
                    true
                }
                _ => false,
            },
        };
        self.reported += usize::from(reported);
    }

    /// Returns first the names that become one, then those that look alike, then those that the profile refuses.
    pub fn list(self) -> Vec<Collision> {
        let one = self.by_name.into_iter().map(|(canonical, names)| Collision { canonical: Some(canonical), names });
        let alike = self.by_skeleton.into_values().map(|names| Collision { canonical: None, names });
        let none = self.forbidden.into_iter().map(|name| Collision { canonical: None, names: vec![name] });
        let mut all: Vec<_> = one.chain(alike).chain(none).collect();
        all.iter_mut().for_each(|collision| collision.names.sort_unstable());
        all
    }
}

/// A second pass, over claims that look like reserved names.
#[derive(Default)]
pub struct LookAlikes {
    reserved: Vec<(Skeleton, String)>,
    claims: HashMap<Skeleton, (String, i64)>,
}

impl LookAlikes {
    /// Adds a name as the caller wrote it.
    pub fn add(&mut self, changed: ChangedType, survey: &Survey, given: &str, cell_id: i64) {
        let ChangedType { bucket_type, types } = changed;
        let Ok(value) = types.canonical(bucket_type, given) else { return };
        let bucket = Bucket { bucket_type, value };
        let Some(skeleton) = skeleton_of(&bucket, types).filter(|skeleton| survey.is_beside_reserved(skeleton)) else {
            return;
        };
        let value = bucket.value.into_owned();
        if cell_id == NOBODY {
            self.reserved.push((skeleton, value));
        } else {
            self.claims.insert(skeleton, (value, cell_id));
        }
    }

    /// Returns each reserved name with the claim that looks like it, by name.
    pub fn list(self) -> Vec<BesideReserved> {
        let beside = |(skeleton, reserved)| {
            let (claim, cell_id) = self.claims.get(&skeleton)?.clone();
            Some(BesideReserved { reserved, claim, cell_id })
        };
        let mut all: Vec<_> = self.reserved.into_iter().filter_map(beside).collect();
        all.sort_unstable();
        all
    }
}

fn digest(text: &str) -> Uuid {
    let hash = Sha256::digest(text);
    let mut first = [0; 16];
    first.copy_from_slice(&hash[..16]);
    Uuid::from_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Naming;
    use claims_names::{Confusables, Profile};

    fn collisions(profile: Profile, confusables: Confusables, names: &[(&str, i64)]) -> Vec<Collision> {
        let types = Types { naming: [(100, Naming { profile, confusables })].into(), ..Types::default() };
        let mut survey = Survey::default();
        for (name, cell) in names {
            survey.add(ChangedType { bucket_type: 100, types: &types }, name, *cell);
        }
        let mut found = Collisions::default();
        for (name, cell) in names {
            found.add(ChangedType { bucket_type: 100, types: &types }, &survey, (name, name), *cell);
        }
        let found = found.list();
        assert_eq!(survey.is_clean(), found.is_empty());
        found
    }

    fn reported(collisions: &[Collision]) -> Vec<(Option<&str>, usize)> {
        collisions.iter().map(|collision| (collision.canonical.as_deref(), collision.names.len())).collect()
    }

    #[test]
    fn names_that_become_one_collide() {
        let names = [("Ada", 1), ("ada", 2), ("ADA", 1), ("bob", 1), ("Bob", 1), ("cy", 1)];
        let found = collisions(Profile::Casefold, Confusables::Allow, &names);
        assert_eq!(reported(&found), [(Some("ada"), 3), (Some("bob"), 2)]);
        assert!(collisions(Profile::Exact, Confusables::Allow, &names).is_empty());
    }

    #[test]
    fn names_that_the_profile_refuses_are_reported_one_by_one() {
        let found = collisions(Profile::Username, Confusables::Allow, &[("no name", 1), ("other name", 2), ("ok", 1)]);
        assert_eq!(reported(&found), [(None, 1), (None, 1)]);
    }

    #[test]
    fn names_that_look_alike_collide_where_that_is_refused() {
        let names = [("paypal", 1), ("p\u{430}ypal", 2), ("other", 1)];
        assert_eq!(reported(&collisions(Profile::Username, Confusables::Reject, &names)), [(None, 2)]);
        assert!(collisions(Profile::Username, Confusables::Allow, &names).is_empty());
        // One of them is only reserved.
        let reserved = [("paypal", NOBODY), ("p\u{430}ypal", 2)];
        assert!(collisions(Profile::Username, Confusables::Reject, &reserved).is_empty());
    }

    #[test]
    fn claims_that_look_reserved_are_reported_in_any_order() {
        let naming = Naming { profile: Profile::Username, confusables: Confusables::Reject };
        let types = Types { naming: [(100, naming)].into(), ..Types::default() };
        let names =
            [("PayPal", NOBODY), ("p\u{430}ypal", 2), ("p\u{430}yp\u{430}l", NOBODY), ("other", NOBODY), ("ohter", 1)];
        for order in [names.to_vec(), names.iter().rev().copied().collect()] {
            let mut survey = Survey::default();
            order.iter().for_each(|(name, cell)| {
                drop(survey.add(ChangedType { bucket_type: 100, types: &types }, name, *cell))
            });
            assert!(survey.is_clean() && survey.has_claims_beside_reserved());
            let mut alike = LookAlikes::default();
            order.iter().for_each(|(name, cell)| {
                alike.add(ChangedType { bucket_type: 100, types: &types }, &survey, name, *cell)
            });
            let beside =
                |reserved: &str| BesideReserved { reserved: reserved.into(), claim: "p\u{430}ypal".into(), cell_id: 2 };
            assert_eq!(alike.list(), [beside("paypal"), beside("p\u{430}yp\u{430}l")]);
        }
    }
}
