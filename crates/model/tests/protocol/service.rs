//! The service: each call is one transaction there, so a crash of it is a message that was lost; or it undoes a commit that was
//! not flushed. What is flushed takes along everything before it.

use super::state::{BucketState, End, Wish, World};
use super::{Broken, Protocol};

impl Protocol {
    /// `begin_update` arrives. `false`: it changes nothing, being a repeat, a conflict, or too late.
    pub fn begin(&self, state: &mut World, lease: usize) -> bool {
        let batch = self.batches[lease];
        let active = BucketState::Active { owner: batch.cell };
        if state.leases[lease].outcome != End::Unknown
            || batch.new_claims().any(|bucket| state.claims[*bucket] != BucketState::Free)
            || batch.destroys.iter().any(|bucket| state.claims[*bucket] != active)
        {
            return false;
        }
        batch.new_claims().for_each(|bucket| state.claims[*bucket] = BucketState::Creating { lease });
        batch.destroys.iter().for_each(|bucket| state.claims[*bucket] = BucketState::Destroying { lease });
        state.leases[lease].outcome = End::Outstanding;
        state.leases[lease].begun = true;
        self.flush(state);
        true
    }

    fn flush(&self, state: &mut World) {
        state.leases.iter_mut().for_each(|lease| lease.unflushed = false);
    }

    /// `commit_unflushed` arrives.
    pub fn commit_unflushed(&self, state: &mut World, lease: usize) -> bool {
        let batch = self.batches[lease];
        if state.leases[lease].outcome != End::Outstanding {
            return false;
        }
        self.commit_claims(state, batch);
        state.leases[lease].outcome = End::Committed;
        state.leases[lease].unflushed = true;
        true
    }

    /// A crash, after which the lease is outstanding again. Of several unflushed commits it may lose any: nothing that was flushed
    /// has come between them, so none can rest on another.
    pub fn lose(&self, state: &mut World, lease: usize) -> bool {
        let batch = self.batches[lease];
        if !state.leases[lease].unflushed {
            return false;
        }
        batch.new_claims().for_each(|bucket| state.claims[*bucket] = BucketState::Creating { lease });
        batch.destroys.iter().for_each(|bucket| state.claims[*bucket] = BucketState::Destroying { lease });
        state.leases[lease].outcome = End::Outstanding;
        state.leases[lease].unflushed = false;
        true
    }

    /// The service tells how the lease ended: first it flushes that.
    pub fn tell(&self, state: &mut World) {
        if self.broken != Some(Broken::ToldUnflushed) {
            self.flush(state);
        }
    }

    /// One transaction: that a replaced bucket goes and comes is nothing that anybody can see.
    fn commit_claims(&self, state: &mut World, batch: Wish) {
        batch.destroys.iter().for_each(|bucket| state.claims[*bucket] = BucketState::Free);
        batch.creates.iter().for_each(|bucket| state.claims[*bucket] = BucketState::Active { owner: batch.cell });
    }

    /// `commit_update` arrives.
    pub fn commit(&self, state: &mut World, lease: usize) -> bool {
        let batch = self.batches[lease];
        if state.leases[lease].outcome != End::Outstanding {
            return false;
        }
        self.commit_claims(state, batch);
        state.leases[lease].outcome = End::Committed;
        self.flush(state);
        true
    }

    /// `rollback_update` arrives; an unknown lease is fenced.
    pub fn roll_back(&self, state: &mut World, lease: usize) -> bool {
        let batch = self.batches[lease];
        match state.leases[lease].outcome {
            End::Committed | End::RolledBack => return false,
            End::Unknown => {}
            End::Outstanding => {
                batch.new_claims().for_each(|bucket| state.claims[*bucket] = BucketState::Free);
                batch
                    .destroys
                    .iter()
                    .for_each(|bucket| state.claims[*bucket] = BucketState::Active { owner: batch.cell });
            }
        }
        state.leases[lease].outcome = End::RolledBack;
        self.flush(state);
        true
    }

    /// Whose claim a bucket is.
    pub fn owner(&self, claim: BucketState) -> Option<usize> {
        match claim {
            BucketState::Free => None,
            BucketState::Active { owner } => Some(owner),
            BucketState::Creating { lease } | BucketState::Destroying { lease } => Some(self.batches[lease].cell),
        }
    }
}
