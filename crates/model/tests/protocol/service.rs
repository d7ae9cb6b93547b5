//! The service. Each call is one transaction there, so a crash of the service is a lost message, or it undoes a commit
//! that was not flushed. A flush includes everything before it.

use super::state::{BucketState, End, Wish, World};
use super::{Broken, Protocol};

impl Protocol {
    /// Handles `begin_update`. Returns false if it changes nothing: it is a repeat, it conflicts, or it is too late.
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

    /// Crashes the service, after which the lease is outstanding again. It may lose any of several unflushed commits.
    /// No flush came between them, so none depends on another.
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

    /// Reports the end of the lease, and flushes it before.
    pub fn report(&self, state: &mut World) {
        if self.broken != Some(Broken::ReportedUnflushed) {
            self.flush(state);
        }
    }

    /// Commits the claims in one transaction. Nobody sees that a replaced bucket is deleted and inserted.
    fn commit_claims(&self, state: &mut World, batch: Wish) {
        batch.destroys.iter().for_each(|bucket| state.claims[*bucket] = BucketState::Free);
        batch.creates.iter().for_each(|bucket| state.claims[*bucket] = BucketState::Active { owner: batch.cell });
    }

    /// Handles `commit_update`.
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

    /// Handles `rollback_update`, which fences an unknown lease.
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

    pub fn owner(&self, claim: BucketState) -> Option<usize> {
        match claim {
            BucketState::Free => None,
            BucketState::Active { owner } => Some(owner),
            BucketState::Creating { lease } | BucketState::Destroying { lease } => Some(self.batches[lease].cell),
        }
    }
}
