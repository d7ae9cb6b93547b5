//! The steps of a transaction, of the services, and of recovery.

use claims_model::judge::{self, Facts, LocalTransaction, Step, Verdict};

use super::state::{Claim, End, LeaseId, Local, PassStage, SERVICES, World};
use super::{Broken, TwoServices};

impl TwoServices {
    /// Returns the leases of a transaction.
    pub fn leases_of(&self, transaction: usize) -> impl Iterator<Item = LeaseId> {
        self.wishes[transaction].services.iter().map(move |service| LeaseId { transaction, service: *service })
    }

    pub fn leases(&self) -> impl Iterator<Item = LeaseId> {
        (0..self.wishes.len()).flat_map(|transaction| self.leases_of(transaction))
    }

    /// Opens a transaction, and sends its begins to all of its services before any of them answers. A cell has one transaction at a
    /// time, and creates only rows that do not exist.
    pub fn open(&self, state: &mut World, transaction: usize) -> bool {
        let cell = self.wishes[transaction].cell;
        let is_open = |other: usize| self.wishes[other].cell == cell && state.local[other] == Local::Open;
        let possible = state.local[transaction] == Local::NotBegun
            && !(0..self.wishes.len()).any(is_open)
            && self.wishes[transaction].services.iter().all(|service| !state.rows[cell][*service]);
        state.local[transaction] = Local::Open;
        possible
    }

    /// Handles `begin_update` at a service.
    pub fn begin(&self, state: &mut World, id: LeaseId) -> bool {
        let was_sent = state.local[id.transaction] != Local::NotBegun;
        let is_new = state.lease(id).outcome == End::Unknown;
        if !was_sent || !is_new || state.claims[id.service] != Claim::Free || state.is_dead[id.service] {
            return false;
        }
        state.claims[id.service] = Claim::Creating { transaction: id.transaction };
        let lease = state.lease_mut(id);
        (lease.outcome, lease.begun) = (End::Outstanding, true);
        true
    }

    /// Tracks one lease. The transaction awaits the answers of all services before.
    pub fn track(&self, state: &mut World, id: LeaseId) -> bool {
        let is_awaited = self.leases_of(id.transaction).all(|id| state.lease(id).begun);
        let is_refused =
            (state.lease(id).fenced || state.is_being_fenced(id)) && self.broken != Some(Broken::FenceIgnored);
        let is_tracked_for_it =
            self.broken != Some(Broken::FirstTracked) || self.wishes[id.transaction].services[0] == id.service;
        let waits_for_all = self.broken != Some(Broken::RefusalIgnored);
        let possible = state.local[id.transaction] == Local::Open
            && (is_awaited || !waits_for_all && state.lease(id).begun)
            && !is_refused
            && is_tracked_for_it;
        state.lease_mut(id).tracking = true;
        possible
    }

    /// Commits a local transaction: its rows and all of its tracked leases.
    pub fn commit_locally(&self, state: &mut World, transaction: usize) -> bool {
        let cell = self.wishes[transaction].cell;
        let tracking = |id: LeaseId| state.lease(id).tracking;
        let possible = state.local[transaction] == Local::Open
            && match self.broken {
                Some(Broken::RefusalIgnored | Broken::FirstTracked) => self.leases_of(transaction).any(tracking),
                _ => self.leases_of(transaction).all(tracking),
            };
        for id in self.leases_of(transaction) {
            state.rows[cell][id.service] = true;
            let lease = state.lease_mut(id);
            (lease.tracked, lease.tracking) = (lease.tracking, false);
        }
        state.local[transaction] = Local::Committed;
        possible
    }

    pub fn roll_back_locally(&self, state: &mut World, transaction: usize) -> bool {
        let possible = state.local[transaction] == Local::Open;
        self.leases_of(transaction).for_each(|id| state.lease_mut(id).tracking = false);
        state.local[transaction] = Local::RolledBack;
        possible
    }

    /// Crashes a cell: its open transaction is rolled back, and its passes end.
    pub fn crash(&self, state: &mut World, cell: usize) {
        for transaction in (0..self.wishes.len()).filter(|transaction| self.wishes[*transaction].cell == cell) {
            if state.local[transaction] == Local::Open {
                self.roll_back_locally(state, transaction);
            }
            let is_of_it = |pass: &&mut PassStage| pass.lease().is_some_and(|id| id.transaction == transaction);
            state.passes.iter_mut().filter(is_of_it).for_each(|pass| *pass = PassStage::Idle);
        }
    }

    /// Handles `commit_update`, from the session, or from a pass, which sends it only for a tracked lease. Each is sent once the
    /// transaction has committed.
    pub fn commit(&self, state: &mut World, id: LeaseId) -> bool {
        let is_early = self.broken == Some(Broken::CommittedEarly)
            && self.leases_of(id.transaction).all(|id| state.lease(id).begun);
        let is_sent = state.local[id.transaction] == Local::Committed || is_early;
        if !is_sent || state.lease(id).outcome != End::Outstanding || state.is_dead[id.service] {
            return false;
        }
        state.claims[id.service] = Claim::Active { owner: self.wishes[id.transaction].cell };
        state.lease_mut(id).outcome = End::Committed;
        true
    }

    /// Handles `rollback_update`, from a session whose transaction was rolled back, or from a pass. It fences an unknown lease.
    pub fn roll_back(&self, state: &mut World, id: LeaseId) -> bool {
        let lease = *state.lease(id);
        let is_sent = state.local[id.transaction] == Local::RolledBack || lease.rollback_sent;
        let is_settled = matches!(lease.outcome, End::Committed | End::RolledBack);
        if !is_sent || is_settled || state.is_dead[id.service] {
            return false;
        }
        if lease.outcome == End::Outstanding {
            state.claims[id.service] = Claim::Free;
        }
        state.lease_mut(id).outcome = End::RolledBack;
        true
    }

    /// Returns whether a pass can call a service.
    pub fn can_call(&self, state: &World, service: usize) -> bool {
        match self.broken {
            Some(Broken::OnePassForAll) => !state.is_dead.contains(&true),
            _ => !state.is_dead[service],
        }
    }

    /// A pass lists a lease that is outstanding at its service.
    pub fn list(&self, state: &mut World, slot: usize, id: LeaseId) -> bool {
        let possible = state.passes[slot] == PassStage::Idle
            && self.can_call(state, id.service)
            && state.lease(id).outcome == End::Outstanding;
        state.passes[slot] = PassStage::Listed(id);
        possible
    }

    /// Does the next step of a pass. Returns false if the pass waits for the service.
    pub fn advance(&self, state: &mut World, slot: usize) -> bool {
        state.passes[slot] = match state.passes[slot] {
            PassStage::Idle => return false,
            PassStage::Listed(id) => self.judge(state, id),
            PassStage::Settling { id, verdict, fencing } => {
                match (verdict, state.lease(id).outcome) {
                    (Verdict::Wait, _) | (Verdict::Rollback, End::RolledBack | End::Committed) => {}
                    (Verdict::Commit, End::Committed) => state.lease_mut(id).tracked = false,
                    _ => return false,
                }
                // The pass commits, and with it the fence.
                state.lease_mut(id).fenced |= fencing;
                PassStage::Idle
            }
        };
        true
    }

    /// Judges a lease by its own tracked row and by the one local transaction, and sends the verdict.
    fn judge(&self, state: &mut World, id: LeaseId) -> PassStage {
        let lease = *state.lease(id);
        let transaction = match state.local[id.transaction] {
            _ if !self.named => LocalTransaction::Unknown,
            Local::NotBegun => LocalTransaction::Unknown,
            Local::Open => LocalTransaction::Running,
            Local::Committed | Local::RolledBack => LocalTransaction::Ended,
        };
        let facts = Facts {
            tracked: lease.tracked,
            tracked_here: false,
            fenced: lease.fenced,
            transaction,
            end_is_visible: state.local[id.transaction] != Local::Open,
            // A lease that is not yet stale is only left alone for longer.
            stale: true,
        };
        let step = judge::judge(facts);
        let wanted = matches!(step, Step::FenceAndRollback | Step::FenceAndWait);
        let fencing = wanted && !lease.tracking && !state.is_being_fenced(id);
        let verdict = judge::after_fencing(step, fencing);
        state.lease_mut(id).rollback_sent |= verdict == Verdict::Rollback;
        PassStage::Settling { id, verdict, fencing }
    }

    /// A pass at a service asks for the outcomes of the leases that are tracked for it and not outstanding there.
    pub fn find_orphans(&self, state: &mut World, service: usize) -> bool {
        if !self.can_call(state, service) {
            return false;
        }
        for transaction in 0..self.wishes.len() {
            for of in 0..SERVICES {
                let id = LeaseId { transaction, service: of };
                if !state.lease(id).tracked || of != service && self.broken != Some(Broken::OrphansOfAll) {
                    continue;
                }
                // A service knows only its own leases.
                match if of == service { state.lease(id).outcome } else { End::Unknown } {
                    End::Outstanding => {}
                    End::Committed => state.lease_mut(id).tracked = false,
                    End::Unknown | End::RolledBack => state.has_orphan = true,
                }
            }
        }
        true
    }
}
