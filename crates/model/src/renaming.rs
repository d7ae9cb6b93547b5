//! What becomes of the names of a type under another profile: which of them are one from then on, or look alike where that is
//! refused.
//!
//! A million names are compared by 128 bits of their digests, and only those that collide are looked at by their letters.

use std::collections::{BTreeMap, HashMap, HashSet};

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::claim::{Bucket, NOBODY};
use crate::lookalike::{Look, look_of};
use crate::types::Types;

/// Names that cannot stay what they are, told at most: the first by name are enough to begin with.
pub const MAX_TOLD: usize = 10_000;

/// A first look at all names.
#[derive(Default)]
pub struct Survey {
    seen: HashSet<Uuid>,
    /// By look: the digest of the name that has it.
    looks: HashMap<Look, Uuid>,
    /// Of names that several become, and looks that several have.
    doubled: HashSet<Uuid>,
    alike: HashSet<Look>,
    forbidden: usize,
}

impl Survey {
    /// Takes in a name as it was given; returns what it becomes, and its look. `None`: the profile does not take it.
    pub fn add(
        &mut self,
        given: &str,
        cell_id: i64,
        bucket_type: i32,
        types: &Types,
    ) -> Option<(String, Option<Look>)> {
        let Ok(canonical) = types.canonical(bucket_type, given) else {
            self.forbidden += 1;
            return None;
        };
        let digest = digest(&canonical);
        if !self.seen.insert(digest) {
            self.doubled.insert(digest);
        }
        let bucket = Bucket { bucket_type, value: canonical };
        let look = look_of(&bucket, types);
        // What is reserved minds no look-alikes that are there.
        if let Some(look) = look.filter(|_| cell_id != NOBODY)
            && *self.looks.entry(look).or_insert(digest) != digest
        {
            self.alike.insert(look);
        }
        Some((bucket.value.into_owned(), look))
    }

    /// All names can stay, as what they become.
    pub fn is_clean(&self) -> bool {
        self.doubled.is_empty() && self.alike.is_empty() && self.forbidden == 0
    }
}

/// Names that are in each other's way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collision {
    /// What all of them become; `None`: the profile does not take the name, or they only look alike.
    pub canonical: Option<String>,
    /// The names as they are stored, and whose they are.
    pub names: Vec<(String, i64)>,
}

/// A second look, at those that the first one found.
#[derive(Default)]
pub struct Collisions {
    by_name: BTreeMap<String, Vec<(String, i64)>>,
    by_look: BTreeMap<Look, Vec<(String, i64)>>,
    forbidden: Vec<(String, i64)>,
    told: usize,
}

impl Collisions {
    /// Takes in a name: as it is stored, and as it was given.
    pub fn add(
        &mut self,
        survey: &Survey,
        (stored, given): (&str, &str),
        cell_id: i64,
        bucket_type: i32,
        types: &Types,
    ) {
        if self.told >= MAX_TOLD {
            return;
        }
        let name = || (stored.to_owned(), cell_id);
        let told = match types.canonical(bucket_type, given) {
            Err(_) => {
                self.forbidden.push(name());
                true
            }
            Ok(canonical) if survey.doubled.contains(&digest(&canonical)) => {
                self.by_name.entry(canonical.into_owned()).or_default().push(name());
                true
            }
            Ok(value) => match look_of(&Bucket { bucket_type, value }, types) {
                Some(look) if survey.alike.contains(&look) && cell_id != NOBODY => {
                    self.by_look.entry(look).or_default().push(name());
                    true
                }
                _ => false,
            },
        };
        self.told += usize::from(told);
    }

    /// Those that become one, then those that look alike, then those that can be none.
    pub fn list(self) -> Vec<Collision> {
        let one = self.by_name.into_iter().map(|(canonical, names)| Collision { canonical: Some(canonical), names });
        let alike = self.by_look.into_values().map(|names| Collision { canonical: None, names });
        let none = self.forbidden.into_iter().map(|name| Collision { canonical: None, names: vec![name] });
        let mut all: Vec<_> = one.chain(alike).chain(none).collect();
        all.iter_mut().for_each(|collision| collision.names.sort_unstable());
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
            survey.add(name, *cell, 100, &types);
        }
        let mut found = Collisions::default();
        for (name, cell) in names {
            found.add(&survey, (name, name), *cell, 100, &types);
        }
        let found = found.list();
        assert_eq!(survey.is_clean(), found.is_empty());
        found
    }

    fn told(collisions: &[Collision]) -> Vec<(Option<&str>, usize)> {
        collisions.iter().map(|collision| (collision.canonical.as_deref(), collision.names.len())).collect()
    }

    #[test]
    fn names_that_become_one_collide() {
        let names = [("Ada", 1), ("ada", 2), ("ADA", 1), ("bob", 1), ("Bob", 1), ("cy", 1)];
        let found = collisions(Profile::Casefold, Confusables::Allow, &names);
        assert_eq!(told(&found), [(Some("ada"), 3), (Some("bob"), 2)]);
        assert!(collisions(Profile::Exact, Confusables::Allow, &names).is_empty());
    }

    #[test]
    fn names_that_are_none_are_told_one_by_one() {
        let found = collisions(Profile::Username, Confusables::Allow, &[("no name", 1), ("other name", 2), ("ok", 1)]);
        assert_eq!(told(&found), [(None, 1), (None, 1)]);
    }

    #[test]
    fn names_that_look_alike_collide_where_that_is_refused() {
        let names = [("paypal", 1), ("p\u{430}ypal", 2), ("other", 1)];
        assert_eq!(told(&collisions(Profile::Username, Confusables::Reject, &names)), [(None, 2)]);
        assert!(collisions(Profile::Username, Confusables::Allow, &names).is_empty());
        // One of them is only reserved.
        let reserved = [("paypal", NOBODY), ("p\u{430}ypal", 2)];
        assert!(collisions(Profile::Username, Confusables::Reject, &reserved).is_empty());
    }
}
