//! The cell: its transactions, and the passes of its recovery.

use claims_model::judge::{self, Facts, LocalTransaction, Step, Verdict};

use super::state::{End, Local, PassStage, World};
use super::{Broken, Protocol};

impl Protocol {
    /// The application begins a transaction and sends begin_update: one transaction at a time in a cell, and only for rows
    /// that are there, or not.
    pub fn can_open(&self, state: &World, lease: usize) -> bool {
        let batch = self.batches[lease];
        let same_cell = |other: &usize| self.batches[*other].cell == batch.cell;
        state.leases[lease].local == Local::NotBegun
            && !(0..self.batches.len()).filter(same_cell).any(|other| state.is_open(other))
            && batch.new_claims().all(|bucket| !state.rows[batch.cell][*bucket])
            && batch.destroys.iter().all(|bucket| state.rows[batch.cell][*bucket])
    }

    /// `track_lease` succeeds: nobody holds the key, and there is no fence behind it.
    pub fn can_track(&self, state: &World, lease: usize) -> bool {
        let it = state.leases[lease];
        let fence = (it.fenced || state.key_is_held(lease)) && self.broken != Some(Broken::FenceIgnored);
        it.local == Local::Open && it.begun && !fence
    }

    /// COMMIT: the rows and the tracked lease in one.
    pub fn commit_locally(&self, state: &mut World, lease: usize) {
        let batch = self.batches[lease];
        batch.destroys.iter().for_each(|bucket| state.rows[batch.cell][*bucket] = false);
        batch.creates.iter().for_each(|bucket| state.rows[batch.cell][*bucket] = true);
        state.leases[lease].local = Local::Committed;
        state.leases[lease].tracked = true;
    }

    /// Everything that is open in the cell is rolled back.
    pub fn crash(&self, state: &mut World, cell: usize) {
        for lease in (0..self.batches.len()).filter(|lease| self.batches[*lease].cell == cell) {
            if state.is_open(lease) {
                state.leases[lease].local = Local::RolledBack;
            }
            for pass in &mut state.passes {
                if pass.lease() == Some(lease) {
                    *pass = PassStage::Idle;
                }
            }
        }
    }

    /// The next step of a pass; `None`: it waits for the service.
    pub fn advance(&self, state: &mut World, slot: usize) -> Option<()> {
        let before = state.passes[slot];
        let it = state.leases[before.lease()?];
        state.passes[slot] = match before {
            PassStage::Idle => return None,
            PassStage::Listed { lease } => {
                PassStage::FenceRead { lease, fenced: it.fenced, tracked_too_early: it.tracked }
            }
            PassStage::FenceRead { lease, fenced, tracked_too_early } => {
                let transaction = match it.local {
                    _ if !self.named => LocalTransaction::Unknown,
                    Local::NotBegun => LocalTransaction::Unknown,
                    Local::Open | Local::Tracking => LocalTransaction::Running,
                    Local::Committed | Local::RolledBack => LocalTransaction::Ended,
                };
                // Only the broken protocol remembers what it has seen before.
                let tracked_too_early = tracked_too_early && self.broken == Some(Broken::TrackedReadFirst);
                PassStage::TransactionRead { lease, fenced, transaction, tracked_too_early }
            }
            PassStage::TransactionRead { lease, fenced, transaction, tracked_too_early } => {
                let facts = Facts {
                    tracked: it.tracked,
                    tracked_here: false,
                    fenced,
                    transaction,
                    end_is_visible: !state.is_open(lease),
                    // A lease that is not yet stale is only left alone for longer.
                    stale: true,
                };
                let facts = match self.broken {
                    Some(Broken::TrackedReadFirst) => Facts { tracked: tracked_too_early, ..facts },
                    _ => facts,
                };
                PassStage::Judged { lease, step: judge::judge(facts) }
            }
            PassStage::Judged { lease, step } => self.fence(state, lease, step),
            PassStage::Settling { lease, verdict, fencing } => {
                match verdict {
                    Verdict::Commit if it.outcome == End::Committed => {
                        self.tell(state);
                        state.leases[lease].tracked = false;
                    }
                    Verdict::Rollback if matches!(it.outcome, End::RolledBack | End::Committed) => {}
                    Verdict::Wait => {}
                    Verdict::Commit | Verdict::Rollback => return None,
                }
                // The pass commits, and with it the fence.
                state.leases[lease].fenced |= fencing;
                PassStage::Idle
            }
        };
        Some(())
    }

    /// Fences where the step asks for it and nobody is in the way, and sends what follows.
    fn fence(&self, state: &mut World, lease: usize, step: Step) -> PassStage {
        let it = state.leases[lease];
        let wanted = matches!(step, Step::FenceAndRollback | Step::FenceAndWait);
        let in_the_way = (state.key_is_held(lease) && self.broken != Some(Broken::FenceWithoutKey)) || it.tracked;
        let fencing = wanted && !in_the_way && self.broken != Some(Broken::NeverFenced);
        let verdict = match (self.broken, step) {
            (Some(Broken::FenceUncommitted), Step::FenceAndWait) => {
                judge::after_fencing(Step::FenceAndRollback, fencing)
            }
            (Some(Broken::TrackedReadFirst), Step::FenceAndRollback) => Verdict::Rollback,
            // The transaction that was in the way has committed.
            _ if wanted && it.tracked => Verdict::Commit,
            _ => judge::after_fencing(step, fencing),
        };
        state.leases[lease].commit_sent |= verdict == Verdict::Commit;
        state.leases[lease].rollback_sent |= verdict == Verdict::Rollback;
        PassStage::Settling { lease, verdict, fencing }
    }
}
