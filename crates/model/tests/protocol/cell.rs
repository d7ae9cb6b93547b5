//! The cell: its transactions, and the passes of its recovery.

use claims_model::judge::{self, Facts, LocalTransaction, Step, Verdict};

use super::state::{End, Local, PassStage, World};
use super::{Broken, Protocol};

impl Protocol {
    /// Returns whether the application can begin a transaction and send begin_update. A cell has one transaction at a
    /// time. It creates only rows that do not exist, and destroys only rows that exist.
    pub fn can_open(&self, state: &World, lease: usize) -> bool {
        let batch = self.batches[lease];
        let same_cell = |other: &usize| self.batches[*other].cell == batch.cell;
        state.leases[lease].local == Local::NotBegun
            && !(0..self.batches.len()).filter(same_cell).any(|other| state.is_open(other))
            && batch.new_claims().all(|bucket| !state.rows[batch.cell][*bucket])
            && batch.destroys.iter().all(|bucket| state.rows[batch.cell][*bucket])
    }

    /// Returns whether `track_lease` succeeds: no transaction holds the key, and there is no fence.
    pub fn can_track(&self, state: &World, lease: usize) -> bool {
        let it = state.leases[lease];
        let fence = (it.fenced || state.key_is_held(lease)) && self.broken != Some(Broken::FenceIgnored);
        it.local == Local::Open && it.begun && !fence
    }

    /// Commits the local transaction: its rows and the tracked lease.
    pub fn commit_locally(&self, state: &mut World, lease: usize) {
        let batch = self.batches[lease];
        batch.destroys.iter().for_each(|bucket| state.rows[batch.cell][*bucket] = false);
        batch.creates.iter().for_each(|bucket| state.rows[batch.cell][*bucket] = true);
        state.leases[lease].local = Local::Committed;
        state.leases[lease].tracked = true;
    }

    /// Rolls back every open transaction of the cell.
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

    /// Does the next step of a pass. Returns `None` if the pass waits for the service.
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
                // Only the broken protocol uses the tracked row that it has read before.
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
                        self.report(state);
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

    /// Writes a fence if the step asks for it and no transaction prevents it, and sends the verdict.
    fn fence(&self, state: &mut World, lease: usize, step: Step) -> PassStage {
        let it = state.leases[lease];
        let wanted = matches!(step, Step::FenceAndRollback | Step::FenceAndWait);
        let is_prevented = (state.key_is_held(lease) && self.broken != Some(Broken::FenceWithoutKey)) || it.tracked;
        let fencing = wanted && !is_prevented && self.broken != Some(Broken::NeverFenced);
        let verdict = match (self.broken, step) {
            (Some(Broken::FenceUncommitted), Step::FenceAndWait) => {
                judge::after_fencing(Step::FenceAndRollback, fencing)
            }
            (Some(Broken::TrackedReadFirst), Step::FenceAndRollback) => Verdict::Rollback,
            // The transaction that prevented the fence has committed.
            _ if wanted && it.tracked => Verdict::Commit,
            _ => judge::after_fencing(step, fencing),
        };
        state.leases[lease].commit_sent |= verdict == Verdict::Commit;
        state.leases[lease].rollback_sent |= verdict == Verdict::Rollback;
        PassStage::Settling { lease, verdict, fencing }
    }
}
