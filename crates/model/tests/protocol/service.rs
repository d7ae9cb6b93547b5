//! The service: each call is one transaction there, so a crash of it is a message that was lost.

use super::Protocol;
use super::state::{Claim, Outcome, State};

impl Protocol {
    /// `begin_update` arrives. `false`: it changes nothing, being a repeat, a conflict, or too late.
    pub fn begin(&self, state: &mut State, lease: usize) -> bool {
        let batch = self.batches[lease];
        let active = Claim::Active { owner: batch.cell };
        if state.leases[lease].outcome != Outcome::Unknown
            || batch.new_claims().any(|bucket| state.claims[*bucket] != Claim::Free)
            || batch.destroys.iter().any(|bucket| state.claims[*bucket] != active)
        {
            return false;
        }
        batch.new_claims().for_each(|bucket| state.claims[*bucket] = Claim::Creating { lease });
        batch.destroys.iter().for_each(|bucket| state.claims[*bucket] = Claim::Destroying { lease });
        state.leases[lease].outcome = Outcome::Outstanding;
        state.leases[lease].begun = true;
        true
    }

    /// `commit_update` arrives.
    pub fn commit(&self, state: &mut State, lease: usize) -> bool {
        let batch = self.batches[lease];
        if state.leases[lease].outcome != Outcome::Outstanding {
            return false;
        }
        // One transaction: that a replaced bucket goes and comes is nothing that anybody can see.
        batch.destroys.iter().for_each(|bucket| state.claims[*bucket] = Claim::Free);
        batch.creates.iter().for_each(|bucket| state.claims[*bucket] = Claim::Active { owner: batch.cell });
        state.leases[lease].outcome = Outcome::Committed;
        true
    }

    /// `rollback_update` arrives; an unknown lease is fenced.
    pub fn roll_back(&self, state: &mut State, lease: usize) -> bool {
        let batch = self.batches[lease];
        match state.leases[lease].outcome {
            Outcome::Committed | Outcome::RolledBack => return false,
            Outcome::Unknown => {}
            Outcome::Outstanding => {
                batch.new_claims().for_each(|bucket| state.claims[*bucket] = Claim::Free);
                batch.destroys.iter().for_each(|bucket| state.claims[*bucket] = Claim::Active { owner: batch.cell });
            }
        }
        state.leases[lease].outcome = Outcome::RolledBack;
        true
    }

    /// Whose claim a bucket is.
    pub fn owner(&self, claim: Claim) -> Option<usize> {
        match claim {
            Claim::Free => None,
            Claim::Active { owner } => Some(owner),
            Claim::Creating { lease } | Claim::Destroying { lease } => Some(self.batches[lease].cell),
        }
    }
}
