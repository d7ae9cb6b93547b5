//! The batch that capture sends, and how the service's conflicts change it. Rows may give up names that the cell never
//! claimed, so capture skips such destroys. They may also create names that the cell has claimed for no row, so capture
//! adopts such claims.

use std::cmp::Ordering;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::iter::Peekable;

use crate::capture::{Create, Ends, NamedBucket, Pending, PendingDestroy, records_json};
use crate::lookalike::Skeleton;
use crate::refusal::Buckets;
pub use crate::refusal::{Refusal, RefusedBucket, refusals};

/// The numbers of skipped records, by the reason of the service, and of adopted claims.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SkippedDestroys {
    pub missing: i64,
    pub not_owner: i64,
    pub other_source: i64,
    pub adopted: i64,
}

impl SkippedDestroys {
    pub fn add(&mut self, more: SkippedDestroys) {
        self.missing += more.missing;
        self.not_owner += more.not_owner;
        self.other_source += more.other_source;
        self.adopted += more.adopted;
    }
}

/// Returns the create and the destroy of the lowest bucket in two sorted lists.
fn next_of_both(
    creates: &mut Peekable<impl Iterator<Item = Creating>>,
    destroys: &mut Peekable<impl Iterator<Item = Destroying>>,
) -> Option<(Option<Creating>, Option<Destroying>)> {
    let order = match (creates.peek(), destroys.peek()) {
        (Some(creating), Some(destroying)) => creating.create.bucket.cmp(&destroying.bucket),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => return None,
    };
    Some(match order {
        Ordering::Less => (creates.next(), None),
        Ordering::Equal => (creates.next(), destroys.next()),
        Ordering::Greater => (None, destroys.next()),
    })
}

pub(crate) struct Creating {
    pub(crate) create: Create,
    /// Whether the row had the bucket before, too.
    had_bucket: bool,
    adoption: Adoption,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Adoption {
    NotTried,
    /// Replace the existing claim, whatever its source.
    Now,
    /// The claim no longer existed, and is not adopted again.
    Failed,
}

pub(crate) struct Destroying {
    pub(crate) bucket: NamedBucket,
    /// The rows that may have had the claim; the last one is tried first. Empty if the claim is adopted.
    pub(crate) ends: Vec<Ends>,
}

/// A batch to send.
#[derive(Default)]
pub struct Outgoing {
    pub(crate) creates: Vec<Creating>,
    pub(crate) destroys: Vec<Destroying>,
    skipped: SkippedDestroys,
}

impl Outgoing {
    pub fn new(Pending { creates, destroys, .. }: Pending) -> Self {
        let before = |bucket: &NamedBucket| {
            destroys.binary_search_by(|destroy| destroy.bucket.cmp(bucket)).ok().map(|at| &destroys[at])
        };
        let creating = |create: Create| {
            let had = |destroy: &PendingDestroy| destroy.ends.iter().any(|ends| ends.has_source_of(&create.ends));
            let had_bucket = before(&create.bucket).is_some_and(had);
            Creating { create, had_bucket, adoption: Adoption::NotTried }
        };
        let creates = creates.into_iter().map(creating).collect();
        let destroying = |PendingDestroy { bucket, mut ends }: PendingDestroy| {
            ends.reverse();
            Destroying { bucket, ends }
        };
        let destroys = destroys.into_iter().map(destroying).collect();
        Outgoing { creates, destroys, skipped: SkippedDestroys::default() }
    }

    /// Returns the number of records: creates and destroys.
    pub fn records(&self) -> usize {
        self.creates.len() + self.destroys.len()
    }

    /// Divides the batch into batches of at most `limit` records, in the order of the buckets. The create and the destroy of one
    /// bucket stay together, and so do all buckets with one skeleton: a name can pass only within a batch. Such a part may be larger
    /// than the limit.
    pub fn divide(self, limit: usize, skeleton: impl Fn(&NamedBucket) -> Option<Skeleton>) -> Vec<Outgoing> {
        let mut batches: Vec<Outgoing> = Vec::new();
        if !self.buckets().any(|bucket| skeleton(bucket).is_some()) {
            self.divide_by_buckets(limit, &mut batches);
            return batches;
        }
        for part in self.parts(skeleton) {
            match batches.last_mut() {
                Some(last) if last.records() + part.records() <= limit => last.append(part),
                _ => batches.push(part),
            }
        }
        for batch in &mut batches {
            batch.creates.sort_by(|a, b| a.create.bucket.cmp(&b.create.bucket));
            batch.destroys.sort_by(|a, b| a.bucket.cmp(&b.bucket));
        }
        batches
    }

    /// Divides a batch without skeletons.
    fn divide_by_buckets(self, limit: usize, batches: &mut Vec<Outgoing>) {
        let Outgoing { creates, destroys, mut skipped } = self;
        let (mut creates, mut destroys) = (creates.into_iter().peekable(), destroys.into_iter().peekable());
        while let Some((create, destroy)) = next_of_both(&mut creates, &mut destroys) {
            let records = usize::from(create.is_some()) + usize::from(destroy.is_some());
            if batches.last().is_none_or(|last| last.records() + records > limit) {
                batches.push(Outgoing { skipped: std::mem::take(&mut skipped), ..Outgoing::default() });
            }
            if let Some(batch) = batches.last_mut() {
                batch.creates.extend(create);
                batch.destroys.extend(destroy);
            }
        }
    }

    /// Returns the smallest parts that can be sent by themselves.
    fn parts(self, skeleton: impl Fn(&NamedBucket) -> Option<Skeleton>) -> Vec<Outgoing> {
        let Outgoing { creates, destroys, mut skipped } = self;
        let (mut creates, mut destroys) = (creates.into_iter().peekable(), destroys.into_iter().peekable());
        let (mut parts, mut by_skeleton) = (Vec::<Outgoing>::new(), HashMap::<Skeleton, usize>::new());
        while let Some((create, destroy)) = next_of_both(&mut creates, &mut destroys) {
            let bucket = create.as_ref().map(|creating| &creating.create.bucket);
            let found = bucket.or(destroy.as_ref().map(|destroy| &destroy.bucket)).and_then(&skeleton);
            let part = Outgoing {
                creates: create.into_iter().collect(),
                destroys: destroy.into_iter().collect(),
                skipped: std::mem::take(&mut skipped),
            };
            match found.map(|skeleton| by_skeleton.entry(skeleton)) {
                Some(Entry::Occupied(at)) => parts[*at.get()].append(part),
                Some(Entry::Vacant(entry)) => {
                    entry.insert(parts.len());
                    parts.push(part);
                }
                None => parts.push(part),
            }
        }
        parts
    }

    fn append(&mut self, more: Outgoing) {
        self.creates.extend(more.creates);
        self.destroys.extend(more.destroys);
        self.skipped.add(more.skipped);
    }

    /// Returns whether nothing is left to send.
    pub fn is_empty(&self) -> bool {
        self.creates.is_empty() && self.destroys.is_empty()
    }

    /// Returns the buckets of both lists.
    fn buckets(&self) -> impl Iterator<Item = &NamedBucket> {
        let creates = self.creates.iter().map(|creating| &creating.create.bucket);
        creates.chain(self.destroys.iter().map(|destroy| &destroy.bucket))
    }

    /// Returns a name of the batch, in its canonical form.
    pub fn first_name(&self) -> Option<&str> {
        self.buckets().next().map(|bucket| &*bucket.value)
    }

    /// Returns the bucket types of the batch, with duplicates.
    pub fn bucket_types(&self) -> impl Iterator<Item = &str> {
        self.buckets().map(|bucket| &*bucket.bucket_type)
    }

    /// Returns an index by which the rows of conflicts are found.
    pub fn rows(&self) -> ClaimingRows<'_> {
        let creates = self.creates.iter().map(|creating| &creating.create.bucket);
        let destroys = self.destroys.iter().map(|destroy| &destroy.bucket);
        ClaimingRows { outgoing: self, creates: Buckets::new(creates), destroys: Buckets::new(destroys) }
    }

    /// Formats creates and destroys as the arguments of `begin_update`.
    pub fn json(&self) -> (String, String) {
        let creates = self.creates.iter().map(|Creating { create, .. }| (&create.bucket, Some(&create.ends)));
        let destroys = self.destroys.iter().map(|destroy| (&destroy.bucket, destroy.ends.last()));
        (records_json(creates), records_json(destroys))
    }

    /// Returns what was skipped and adopted so far. The counts are valid once the batch has begun.
    pub fn skipped_destroys(&self) -> SkippedDestroys {
        let adopted = self.adopted().count();
        SkippedDestroys { adopted: i64::try_from(adopted).unwrap_or(i64::MAX), ..self.skipped }
    }

    /// Returns the creates that replace a claim of their own cell.
    pub fn adopted(&self) -> impl Iterator<Item = &Create> {
        self.creates.iter().filter(|creating| creating.adoption == Adoption::Now).map(|creating| &creating.create)
    }

    /// Returns the creates whose buckets the cell itself has claimed already, and that may adopt those claims.
    pub fn adoptable(&self, refusals: &[Refusal], cell_id: i64) -> Vec<&Create> {
        let creates = self.taken_creates(refusals, cell_id).into_iter();
        creates.filter(|creating| creating.adoption == Adoption::NotTried).map(|creating| &creating.create).collect()
    }

    /// Returns the creates whose buckets the cell itself has claimed already.
    pub(crate) fn taken_creates(&self, refusals: &[Refusal], cell_id: i64) -> Vec<&Creating> {
        let buckets = self.rows().creates;
        let taken = refusals.iter().filter(|refusal| refusal.is_taken_by(cell_id));
        taken.filter_map(|refusal| buckets.find(&refusal.bucket)).map(|at| &self.creates[at]).collect()
    }

    /// Removes or adopts what the conflicts name. `free` has the buckets whose claims may be adopted. Returns false if
    /// no conflict led to a change; then the refusal is final.
    pub fn apply_refusals(&mut self, refusals: &[Refusal], cell_id: i64, free: &BTreeSet<NamedBucket>) -> bool {
        let mut changed = false;
        let mut changes = Changes::of(self, refusals);
        for (at, refusal) in refusals.iter().enumerate() {
            changed |= match refusal.reason.as_str() {
                "missing" | "not_owner" | "other_source" => self.skip_destroy(&mut changes, at, refusal),
                "taken" => self.adopt(&mut changes, at, refusal, (cell_id, free)),
                _ => false,
            };
        }
        self.apply(changes);
        changed
    }

    /// Removes what was marked, and adds the destroys of adopted claims.
    pub(crate) fn apply(&mut self, changes: Changes) {
        let Changes { removed_creates, removed_destroys, adopted, .. } = changes;
        let mut removed = removed_creates.into_iter();
        self.creates.retain(|_| removed.next() != Some(true));
        let mut removed = removed_destroys.into_iter();
        self.destroys.retain(|_| removed.next() != Some(true));
        if !adopted.is_empty() {
            self.destroys.extend(adopted);
            self.destroys.sort_by(|one, other| one.bucket.cmp(&other.bucket));
        }
    }

    pub(crate) fn position_of_create(&self, bucket: &NamedBucket) -> Option<usize> {
        self.creates.binary_search_by(|creating| creating.create.bucket.cmp(bucket)).ok()
    }

    /// Skips a destroy of a claim that does not exist or belongs to another row.
    pub(crate) fn skip_destroy(&mut self, changes: &mut Changes, nth: usize, refusal: &Refusal) -> bool {
        let Some(at) = changes.destroy(nth) else { return false };
        // If several rows had the bucket, the claim may be of another one of them.
        if refusal.reason == "other_source" && self.destroys[at].ends.len() > 1 {
            self.destroys[at].ends.pop();
            return true;
        }
        changes.removed_destroys[at] = true;
        let creating = self.position_of_create(&self.destroys[at].bucket);
        if self.destroys[at].ends.is_empty() {
            creating.inspect(|at| self.creates[*at].adoption = Adoption::Failed);
            return true;
        }
        match refusal.reason.as_str() {
            "missing" => self.skipped.missing += 1,
            "other_source" => self.skipped.other_source += 1,
            _ => self.skipped.not_owner += 1,
        }
        // Another cell has the claim. The row had the bucket before and only keeps it, so the create is skipped, too.
        if refusal.reason == "not_owner"
            && let Some(at) = creating.filter(|at| self.creates[*at].had_bucket)
        {
            changes.removed_creates[at] = true;
        }
        true
    }

    /// Removes the bucket of a conflict from both lists. Returns its create, and whether it had a destroy.
    pub(crate) fn remove_bucket(&self, changes: &mut Changes, nth: usize) -> (Option<Create>, bool) {
        let (creating, destroying) = (changes.create(nth), changes.destroy(nth));
        destroying.inspect(|at| changes.removed_destroys[*at] = true);
        creating.inspect(|at| changes.removed_creates[*at] = true);
        (creating.map(|at| self.creates[at].create.clone()), destroying.is_some())
    }

    /// Adopts an existing claim for a create, or skips the create. `free` has the buckets whose claims the cell may adopt.
    fn adopt(
        &mut self,
        changes: &mut Changes,
        nth: usize,
        refusal: &Refusal,
        (cell_id, free): (i64, &BTreeSet<NamedBucket>),
    ) -> bool {
        let Some(at) = changes.create(nth) else { return false };
        let Creating { create, had_bucket, adoption } = &mut self.creates[at];
        if refusal.is_taken_by(cell_id) && *adoption == Adoption::NotTried && free.contains(&create.bucket) {
            *adoption = Adoption::Now;
            changes.adopted.push(Destroying { bucket: create.bucket.clone(), ends: Vec::new() });
            return true;
        }
        if *had_bucket {
            changes.removed_creates[at] = true;
        }
        *had_bucket
    }
}

/// The changes to a batch that conflicts ask for. They are made at the end, all at once: removing entries of long lists one by one would take
/// a time that is quadratic in the number of conflicts.
pub(crate) struct Changes {
    /// The positions of the buckets of each conflict among creates and destroys.
    places: Vec<[Option<usize>; 2]>,
    removed_creates: Vec<bool>,
    removed_destroys: Vec<bool>,
    adopted: Vec<Destroying>,
}

impl Changes {
    pub(crate) fn of(outgoing: &Outgoing, refusals: &[Refusal]) -> Self {
        let ClaimingRows { creates, destroys, .. } = outgoing.rows();
        let place = |refusal: &Refusal| [creates.find(&refusal.bucket), destroys.find(&refusal.bucket)];
        Changes {
            places: refusals.iter().map(place).collect(),
            removed_creates: vec![false; outgoing.creates.len()],
            removed_destroys: vec![false; outgoing.destroys.len()],
            adopted: Vec::new(),
        }
    }

    /// Returns the position of the create of a conflict, unless it is removed.
    fn create(&self, nth: usize) -> Option<usize> {
        self.places[nth][0].filter(|at| !self.removed_creates[*at])
    }

    /// Returns the position of the destroy of a conflict, unless it is removed.
    fn destroy(&self, nth: usize) -> Option<usize> {
        self.places[nth][1].filter(|at| !self.removed_destroys[*at])
    }
}

/// Finds the rows of a batch by the buckets of conflicts.
pub struct ClaimingRows<'o> {
    outgoing: &'o Outgoing,
    creates: Buckets<'o>,
    destroys: Buckets<'o>,
}

impl<'o> ClaimingRows<'o> {
    /// Returns the bucket of a conflict, and the row that creates or destroys its claim. Of a replace it is the row that creates.
    pub fn row_of(&self, refused: &RefusedBucket) -> Option<(&'o NamedBucket, Option<&'o Ends>)> {
        if let Some(at) = self.creates.find(refused) {
            let create = &self.outgoing.creates[at].create;
            return Some((&create.bucket, Some(&create.ends)));
        }
        let destroy = &self.outgoing.destroys[self.destroys.find(refused)?];
        Some((&destroy.bucket, destroy.ends.last()))
    }
}
