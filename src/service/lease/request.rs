//! An attempt to begin a lease, and a batch under its lease, in lock order.

use std::collections::{HashMap, HashSet};

use claims_model::attribution::Attribution;
use claims_model::lookalike::{NewSkeleton, new_skeletons};
use claims_model::{Batch, Bucket, Claim, Conflict, Destroy, Op};
use uuid::Uuid;

use super::payload::{self, SkippedDestroy};
use crate::kernel::call::CellCall;
use crate::kernel::error::ClaimsError;
use crate::service::claims::NewLease;
use pg::clock::Moment;
use pg::jsonb::Jsonb;
use pg::xid8::Xid8;

/// An attempt to begin a lease, with one of several batches.
pub struct BeginAttempt<'c> {
    pub call: &'c CellCall<'c>,
    pub uuid: Uuid,
    pub may_be_repeat: bool,
    pub digest: [u8; 32],
    pub cell_xid: Option<Xid8>,
    pub attribution: &'c Attribution,
    pub conflicts_of: ConflictsOf,
    /// Whether a look has shown that none of the batches is available.
    pub expects_conflicts: bool,
}

/// The batch whose conflicts a call returns if no batch is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConflictsOf {
    /// The last batch.
    Last,
    /// The last batch that has only temporary conflicts, because it may become available. The last batch if there is none.
    LastTemporary,
}

/// A batch under its lease, sorted for locking.
#[derive(Clone)]
pub struct Request<'b> {
    pub call: &'b CellCall<'b>,
    pub batch: &'b Batch<'b>,
    pub lease: NewLease,
    /// Whether the client chose the uuid, so that the call may be a repeat.
    pub may_be_repeat: bool,
    /// Whether a look has shown that the batch is not available.
    pub expects_conflicts: bool,
    /// Whether the lease may begin without destroys whose claims are not there for it.
    skips_missing: bool,
    /// The destroys that the lease begins without.
    pub skipped: Vec<SkippedDestroy<'b>>,
    pub creates: Vec<&'b Claim<'b>>,
    pub destroys: Vec<&'b Destroy<'b>>,
    /// The skeletons that its new names need, for types that refuse confusable names.
    pub skeletons: Vec<NewSkeleton<'b>>,
    /// The names of its creates that are kept back, and that it takes from there.
    reclaims: HashSet<&'b Bucket<'b>>,
}

impl<'b> Request<'b> {
    pub fn new(
        attempt: &'b BeginAttempt<'b>,
        batch: &'b Batch<'b>,
        payload: Jsonb,
        skips_missing: bool,
        chosen: Option<u8>,
    ) -> Self {
        let BeginAttempt { call, uuid, may_be_repeat, digest, cell_xid, attribution, expects_conflicts, .. } = *attempt;
        // Every batch takes its rows in one order, creates by bucket, then destroys by bucket. So two calls that wait for each
        // other form a queue and no deadlock.
        Request {
            call,
            batch,
            lease: NewLease {
                uuid,
                cell_id: call.cell_id,
                made_at: Moment::now(),
                payload,
                digest,
                cell_xid,
                chosen,
                attribution: attribution.clone(),
            },
            may_be_repeat,
            expects_conflicts,
            skips_missing,
            skipped: Vec::new(),
            creates: batch.creates_in_lock_order(),
            destroys: batch.destroys_in_lock_order(),
            skeletons: batch.new_skeletons(&call.catalog.types),
            reclaims: HashSet::new(),
        }
    }

    /// Returns the request with creates of names that are kept back. `None` if they are the same as before.
    pub fn with_reclaims(&self, reclaims: &HashSet<&'b Bucket<'b>>) -> Option<Request<'b>> {
        (self.reclaims != *reclaims).then(|| Request { reclaims: reclaims.clone(), ..self.clone() })
    }

    /// Returns whether the batch takes names that are kept back. Then it cannot be taken as a whole.
    pub fn reclaims_some(&self) -> bool {
        !self.reclaims.is_empty()
    }

    /// Returns the lease as begun by this call.
    pub fn begun(&self) -> BegunLease<'b> {
        BegunLease { lease: self.lease.uuid, chosen: self.lease.chosen, is_new: true, skipped: self.skipped.clone() }
    }

    /// Returns the number of claims that the lease takes. A replaced claim counts once.
    pub fn claims(&self) -> usize {
        self.creates.len() + self.destroys.len()
    }

    /// Returns the operation on each bucket, the new claims first.
    pub fn operations(&self) -> impl Iterator<Item = (Op, &'b Bucket<'b>)> + '_ {
        let creates = self.creates.iter().map(|claim| (Op::Create, &claim.bucket));
        creates.chain(self.destroys.iter().map(|destroy| (Op::Destroy, &destroy.bucket)))
    }

    /// Returns the request without the destroys that it may skip because of these conflicts. `None` if there are none.
    pub fn without_missing(&self, conflicts: &Conflicts<'b>) -> Result<Option<Request<'b>>, ClaimsError> {
        if !self.skips_missing {
            return Ok(None);
        }
        let reason = |destroy: &Destroy<'b>| {
            let conflict = conflicts.get(&destroy.bucket)?;
            (conflict.op == Op::Destroy && conflict.reason.can_be_skipped()).then_some(conflict.reason)
        };
        let mut skipped = self.skipped.clone();
        skipped.extend(self.destroys.iter().filter_map(|destroy| Some((*destroy, reason(destroy)?))));
        if skipped.len() == self.skipped.len() {
            return Ok(None);
        }
        let types = &self.call.catalog.types;
        let buckets: HashSet<_> = skipped.iter().map(|(destroy, _)| &destroy.bucket).collect();
        let destroys: Vec<_> =
            self.destroys.iter().copied().filter(|destroy| !buckets.contains(&destroy.bucket)).collect();
        // A create that would have replaced a claim is an ordinary one.
        let mut creates = self.creates.clone();
        let is_new = |claim: &&Claim| buckets.contains(&claim.bucket);
        creates.extend(self.batch.creates.iter().filter(is_new));
        creates.sort_unstable_by(|a, b| a.bucket.cmp(&b.bucket));
        creates.dedup_by(|a, b| a.bucket == b.bucket);
        let skeletons = new_skeletons(
            creates.iter().map(|claim| &claim.bucket),
            destroys.iter().map(|destroy| &destroy.bucket),
            types,
        );
        let payload = payload::payload_without(self.batch, &skipped, types)?;
        let lease = NewLease { payload, attribution: self.lease.attribution.clone(), ..self.lease };
        let reclaims = HashSet::new();
        Ok(Some(Request { lease, skipped, creates, destroys, skeletons, reclaims, ..*self }))
    }

    /// Returns the steps of the batch row by row, in lock order.
    pub fn steps(&self) -> impl Iterator<Item = ClaimStep<'b>> + '_ {
        let creates = self.creates.iter().map(|claim| match self.reclaims.contains(&claim.bucket) {
            true => ClaimStep::Reclaim(claim),
            false => ClaimStep::Create(claim),
        });
        let skeletons = self.skeletons.iter().map(|new| ClaimStep::Skeleton(*new));
        creates.chain(skeletons).chain(self.destroys.iter().map(|destroy| ClaimStep::Destroy(destroy)))
    }
}

/// A lease that this call or an earlier one has begun.
#[derive(Debug, Clone)]
pub struct BegunLease<'b> {
    pub lease: Uuid,
    /// Position of the batch in the alternatives of begin_first, from 1.
    pub chosen: Option<u8>,
    /// Whether this call has begun it.
    pub is_new: bool,
    /// The destroys that this call has skipped. Empty if an earlier call has begun the lease.
    pub skipped: Vec<SkippedDestroy<'b>>,
}

impl BegunLease<'_> {
    /// Returns the buckets that the lease holds, given the batches of the call.
    pub fn buckets<'a>(&self, batches: &'a [Batch<'a>]) -> impl Iterator<Item = &'a Bucket<'a>> + use<'a> {
        let taken = batches.get(self.chosen.map_or(0, |number| usize::from(number) - 1));
        let mut free: HashSet<&'a Bucket<'a>> = HashSet::new();
        if let Some(batch) = taken.filter(|_| !self.skipped.is_empty()) {
            let skipped: HashSet<_> = self.skipped.iter().map(|(destroy, _)| &destroy.bucket).collect();
            free.extend(batch.buckets().filter(|bucket| skipped.contains(bucket)));
            for claim in &batch.creates {
                free.remove(&claim.bucket);
            }
        }
        taken.into_iter().flat_map(Batch::buckets).filter(move |bucket| !free.contains(bucket))
    }
}

/// The conflicts of a batch, by bucket.
pub type Conflicts<'b> = HashMap<&'b Bucket<'b>, Conflict<'b>>;

/// A step of taking a batch, for one bucket.
#[derive(Clone, Copy)]
pub enum ClaimStep<'b> {
    Create(&'b Claim<'b>),
    /// Takes a name that is kept back.
    Reclaim(&'b Claim<'b>),
    /// Takes the skeleton of a new name.
    Skeleton(NewSkeleton<'b>),
    /// Marks an existing claim to be destroyed or replaced.
    Destroy(&'b Destroy<'b>),
}

impl<'b> ClaimStep<'b> {
    pub fn op(self) -> Op {
        match self {
            ClaimStep::Create(_) | ClaimStep::Reclaim(_) | ClaimStep::Skeleton(_) => Op::Create,
            ClaimStep::Destroy(_) => Op::Destroy,
        }
    }

    pub fn bucket(self) -> &'b Bucket<'b> {
        match self {
            ClaimStep::Create(claim) | ClaimStep::Reclaim(claim) => &claim.bucket,
            ClaimStep::Skeleton(new) => new.bucket,
            ClaimStep::Destroy(destroy) => &destroy.bucket,
        }
    }
}
