//! The batch that capture sends, and where it gives way to what the service answers: rows may give up names that were never
//! theirs, and may have names back that the cell has claimed and no row calls for.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::capture::{Create, Ends, NamedBucket, Pending, PendingDestroy, records_json};

/// A conflict as the service's DETAIL has it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Refusal {
    pub bucket: RefusedBucket,
    pub reason: String,
    pub holder_cell_id: Option<i64>,
}

/// The bucket of a conflict, its type by the name that the service shows.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RefusedBucket {
    #[serde(rename = "type")]
    pub bucket_type: String,
    pub value: String,
}

/// Reads the conflicts of a refused batch; `None`: the text is something else.
pub fn refusals(detail: &str) -> Option<Vec<Refusal>> {
    serde_json::from_str(detail).ok()
}

/// How many records were left out, by what the service said of their claims, and how many claims were adopted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Concessions {
    pub missing: i64,
    pub not_owner: i64,
    pub other_source: i64,
    pub adopted: i64,
}

struct Creating {
    create: Create,
    /// The row had the bucket before, too.
    keeps: bool,
    adoption: Adoption,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Adoption {
    NotTried,
    /// The claim that is there is to be replaced, whatever its source.
    Now,
    /// It was gone then. It is not tried twice.
    Failed,
}

struct Destroying {
    bucket: NamedBucket,
    /// The rows that may have had the claim, the one to try last. None: the claim is adopted.
    ends: Vec<Ends>,
}

/// What is to be sent.
pub struct Outgoing {
    creates: Vec<Creating>,
    destroys: Vec<Destroying>,
    given_up: Concessions,
}

impl Outgoing {
    pub fn new(Pending { creates, destroys, .. }: Pending) -> Self {
        let before = |bucket: &NamedBucket| {
            destroys.binary_search_by(|destroy| destroy.bucket.cmp(bucket)).ok().map(|at| &destroys[at])
        };
        let creating = |create: Create| {
            let had = |destroy: &PendingDestroy| destroy.ends.iter().any(|ends| ends.has_source_of(&create.ends));
            let keeps = before(&create.bucket).is_some_and(had);
            Creating { create, keeps, adoption: Adoption::NotTried }
        };
        let creates = creates.into_iter().map(creating).collect();
        let destroying = |PendingDestroy { bucket, mut ends }: PendingDestroy| {
            ends.reverse();
            Destroying { bucket, ends }
        };
        let destroys = destroys.into_iter().map(destroying).collect();
        Outgoing { creates, destroys, given_up: Concessions::default() }
    }

    /// Nothing is left to send.
    pub fn is_empty(&self) -> bool {
        self.creates.is_empty() && self.destroys.is_empty()
    }

    /// The bucket types of what is left, not each only once.
    pub fn bucket_types(&self) -> impl Iterator<Item = &str> {
        let creates = self.creates.iter().map(|creating| &creating.create.bucket);
        creates.chain(self.destroys.iter().map(|destroy| &destroy.bucket)).map(|bucket| &*bucket.bucket_type)
    }

    /// Creates and destroys, as `begin_update` takes them.
    pub fn json(&self) -> Result<(String, String), serde_json::Error> {
        let creates = self.creates.iter().map(|Creating { create, .. }| (&create.bucket, Some(&create.ends)));
        let destroys = self.destroys.iter().map(|destroy| (&destroy.bucket, destroy.ends.last()));
        Ok((records_json(creates)?, records_json(destroys)?))
    }

    /// What was given up so far. It counts once the rest was begun.
    pub fn concessions(&self) -> Concessions {
        let adopted = self.adopted().count();
        Concessions { adopted: i64::try_from(adopted).unwrap_or(i64::MAX), ..self.given_up }
    }

    /// The creates that replace a claim of their own cell.
    pub fn adopted(&self) -> impl Iterator<Item = &Create> {
        self.creates.iter().filter(|creating| creating.adoption == Adoption::Now).map(|creating| &creating.create)
    }

    /// The creates whose buckets the cell itself has claimed already, and that may adopt those claims.
    pub fn adoptable(&self, refusals: &[Refusal], cell_id: i64) -> Vec<&Create> {
        let taken = refusals.iter().filter(|refusal| refusal.is_taken_by(cell_id));
        let creates = taken.filter_map(|refusal| self.creating(refusal)).map(|at| &self.creates[at]);
        creates.filter(|creating| creating.adoption == Adoption::NotTried).map(|creating| &creating.create).collect()
    }

    /// Leaves out and adopts what the answer says; `free`: the buckets that may be adopted. `false`: nothing of the answer
    /// can be given way to, and it stands.
    pub fn give_way(&mut self, refusals: &[Refusal], cell_id: i64, free: &BTreeSet<NamedBucket>) -> bool {
        let mut changed = false;
        for refusal in refusals {
            changed |= match refusal.reason.as_str() {
                "missing" | "not_owner" | "other_source" => self.give_up(refusal),
                "taken" => self.have_back(refusal, cell_id, free),
                _ => false,
            };
        }
        changed
    }

    /// A destroy of a claim that is not there, or not the row's.
    fn give_up(&mut self, refusal: &Refusal) -> bool {
        let Some(at) = refusal.find(self.destroys.iter().map(|destroy| &destroy.bucket)) else { return false };
        // Of several rows that had the bucket it may have been another one's.
        if refusal.reason == "other_source" && self.destroys[at].ends.len() > 1 {
            self.destroys[at].ends.pop();
            return true;
        }
        let Destroying { bucket, ends } = self.destroys.remove(at);
        let creating = self.creates.iter().position(|creating| creating.create.bucket == bucket);
        if ends.is_empty() {
            creating.inspect(|at| self.creates[*at].adoption = Adoption::Failed);
            return true;
        }
        match refusal.reason.as_str() {
            "missing" => self.given_up.missing += 1,
            "other_source" => self.given_up.other_source += 1,
            _ => self.given_up.not_owner += 1,
        }
        // Another cell has the claim of a row that had the bucket before, and does nothing but keep it.
        if refusal.reason == "not_owner"
            && let Some(at) = creating.filter(|at| self.creates[*at].keeps)
        {
            self.creates.remove(at);
        }
        true
    }

    /// A create of a bucket that is claimed.
    fn have_back(&mut self, refusal: &Refusal, cell_id: i64, free: &BTreeSet<NamedBucket>) -> bool {
        let Some(at) = self.creating(refusal) else { return false };
        let Creating { create, keeps, adoption } = &mut self.creates[at];
        if refusal.is_taken_by(cell_id) && *adoption == Adoption::NotTried && free.contains(&create.bucket) {
            *adoption = Adoption::Now;
            let destroy = Destroying { bucket: create.bucket.clone(), ends: Vec::new() };
            let place = self.destroys.partition_point(|other| other.bucket < destroy.bucket);
            self.destroys.insert(place, destroy);
            return true;
        }
        let keeps = *keeps;
        if keeps {
            self.creates.remove(at);
        }
        keeps
    }

    fn creating(&self, refusal: &Refusal) -> Option<usize> {
        refusal.find(self.creates.iter().map(|creating| &creating.create.bucket))
    }
}

impl Refusal {
    fn is_taken_by(&self, cell_id: i64) -> bool {
        self.reason == "taken" && self.holder_cell_id == Some(cell_id)
    }

    /// The refused bucket's place in a list. The service may know its type by another name than the cell; then the value
    /// says which one it is, if there is one only.
    fn find<'b>(&self, buckets: impl Iterator<Item = &'b NamedBucket>) -> Option<usize> {
        let mut by_value = buckets.enumerate().filter(|(_, bucket)| bucket.value == self.bucket.value);
        let first = by_value.next()?;
        let rest: Vec<_> = by_value.collect();
        if rest.is_empty() {
            return Some(first.0);
        }
        let is_of_type = |(_, bucket): &(usize, &NamedBucket)| *bucket.bucket_type == *self.bucket.bucket_type;
        std::iter::once(first).chain(rest).find(is_of_type).map(|(at, _)| at)
    }
}
