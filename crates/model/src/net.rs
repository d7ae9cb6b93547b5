//! The net changes of a part of a transaction to claimed values.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;

use crate::captured::{Ends, NamedBucket, TooMany};

/// The net changes: for each bucket, how often each claim on it was added minus how often it was removed; never zero.
/// Sums do not depend on the order of row changes, so a swap in one statement equals a swap in two.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Net {
    claims: BTreeMap<NamedBucket, Vec<(Ends, i64)>>,
    /// The bytes of the texts of all buckets and ends.
    bytes: usize,
    /// The bucket types whose changes are not in `claims`, because all changes together exceeded this limit.
    forgotten: BTreeMap<Rc<str>, TooMany>,
}

impl Net {
    /// Returns the claims on each bucket with their sums, in the order of the buckets.
    pub fn claims(&self) -> &BTreeMap<NamedBucket, Vec<(Ends, i64)>> {
        &self.claims
    }

    pub fn buckets(&self) -> usize {
        self.claims.len()
    }

    /// Returns the bytes of all texts.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether there are no changes, and none were forgotten.
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.forgotten.is_empty()
    }

    /// Returns the limit for which changes of one of the types were forgotten.
    pub fn forgotten(&self, of: impl Fn(&str) -> bool) -> Option<TooMany> {
        self.forgotten.iter().find(|(bucket_type, _)| of(bucket_type)).map(|(_, excess)| *excess)
    }

    /// Records that a claim was added or removed, unless changes of its type were forgotten.
    pub fn record(&mut self, bucket: NamedBucket, ends: Ends, by: i64) {
        if self.forgotten.is_empty() || !self.forgotten.contains_key(&bucket.bucket_type) {
            self.add(bucket, ends, by);
        }
    }

    fn add(&mut self, bucket: NamedBucket, ends: Ends, by: i64) {
        let (of_bucket, of_ends) = (bucket.value.len(), ends.bytes());
        let mut entry = match self.claims.entry(bucket) {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(entry) => {
                entry.insert(vec![(ends, by)]);
                self.bytes += of_bucket + of_ends;
                return;
            }
        };
        let claims = entry.get_mut();
        match claims.iter().position(|(known, _)| *known == ends) {
            Some(at) => {
                claims[at].1 += by;
                if claims[at].1 == 0 {
                    claims.remove(at);
                    self.bytes -= of_ends;
                }
            }
            None => {
                claims.push((ends, by));
                self.bytes += of_ends;
            }
        }
        if claims.is_empty() {
            entry.remove();
            self.bytes -= of_bucket;
        }
    }

    /// Forgets the changes of all types but those that are kept, and later ones of the types that it has forgotten.
    pub fn forget(&mut self, excess: TooMany, is_kept: impl Fn(&str) -> bool) {
        for bucket_type in self.take(|bucket_type| !is_kept(bucket_type)).types() {
            self.forgotten.entry(bucket_type).or_insert(excess);
        }
    }

    /// Takes out the changes of some types, and what was forgotten of them.
    pub fn split_off(&mut self, of: impl Fn(&str) -> bool) -> Net {
        let mut taken = self.take(&of);
        taken.forgotten = self.forgotten.extract_if(.., |bucket_type, _| of(bucket_type)).collect();
        taken
    }

    /// Returns what [`Net::split_off`] takes out, and leaves it here. Looks first whether there is any: a clone has every change of a large COPY.
    pub fn copy_of(&self, of: impl Fn(&str) -> bool) -> Net {
        let is_any = self.types().iter().chain(self.forgotten.keys()).any(|bucket_type| of(bucket_type));
        if is_any { self.clone().split_off(of) } else { Net::default() }
    }

    /// Takes out the claims on buckets of some types. Asks once for each type, and not for each bucket.
    fn take(&mut self, of: impl Fn(&str) -> bool) -> Net {
        let mut taken = Net::default();
        let types: Vec<_> = self.types().into_iter().filter(|bucket_type| of(bucket_type)).collect();
        if types.is_empty() {
            return taken;
        }
        for (bucket, claims) in self.claims.extract_if(.., |bucket, _| types.contains(&bucket.bucket_type)) {
            taken.bytes += bucket.value.len() + claims.iter().map(|(ends, _)| ends.bytes()).sum::<usize>();
            taken.claims.insert(bucket, claims);
        }
        self.bytes -= taken.bytes;
        taken
    }

    /// Returns the types of all buckets, each once.
    fn types(&self) -> Vec<Rc<str>> {
        let mut types: Vec<Rc<str>> = Vec::new();
        for NamedBucket { bucket_type, .. } in self.claims.keys() {
            // The buckets of a type are adjacent, and most share its name.
            if types.last().is_none_or(|last| !Rc::ptr_eq(last, bucket_type) && last != bucket_type) {
                types.push(bucket_type.clone());
            }
        }
        types
    }

    /// Adds later changes. Their order does not matter: the smaller ones are added to the larger ones, so that changes that pass through many
    /// levels of subtransactions are moved few times.
    pub fn merge(&mut self, mut more: Net) {
        if more.claims.len() > self.claims.len() {
            std::mem::swap(self, &mut more);
        }
        if !more.forgotten.is_empty() {
            drop(self.take(|bucket_type| more.forgotten.contains_key(bucket_type)));
            self.forgotten.extend(more.forgotten);
        }
        for (bucket, claims) in more.claims {
            for (ends, by) in claims {
                self.record(bucket.clone(), ends, by);
            }
        }
    }
}
