//! The service: each call is one transaction there, so a crash of it is a message that was lost.

use super::Protocol;
use super::state::{BucketState, End, World};

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
        true
    }

    /// `commit_update` arrives.
    pub fn commit(&self, state: &mut World, lease: usize) -> bool {
        let batch = self.batches[lease];
        if state.leases[lease].outcome != End::Outstanding {
            return false;
        }
        // One transaction: that a replaced bucket goes and comes is nothing that anybody can see.
        batch.destroys.iter().for_each(|bucket| state.claims[*bucket] = BucketState::Free);
        batch.creates.iter().for_each(|bucket| state.claims[*bucket] = BucketState::Active { owner: batch.cell });
        state.leases[lease].outcome = End::Committed;
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
