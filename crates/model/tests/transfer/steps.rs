//! The effect of each action.

use super::state::{CELLS, Claim, End, Finding, Local, NAMES, NEW, OLD, Row, Stage, TransferWorld};
use super::{BrokenTransfer, Transfer, TransferAction};

impl Transfer {
    /// Applies an action. Returns `None` if it is impossible or changes nothing.
    pub fn apply(&self, before: &TransferWorld, action: TransferAction) -> Option<TransferWorld> {
        let mut after = before.clone();
        let possible = match action {
            TransferAction::Open(lease) => self.open(&mut after, lease),
            TransferAction::BeginArrives(lease) => {
                before.leases[lease].local != Local::NotBegun && self.begin(&mut after, lease)
            }
            TransferAction::CommitLocally(lease) => self.commit_locally(&mut after, lease),
            TransferAction::RollBackLocally(lease) => {
                after.leases[lease].local = Local::RolledBack;
                before.leases[lease].local == Local::Open
            }
            TransferAction::Settle(lease) => self.settle(&mut after, lease),
            TransferAction::Mark(name) => self.mark(&mut after, name),
            TransferAction::EndPass => self.end_pass(&mut after),
            TransferAction::Switch => {
                self.broken != Some(BrokenTransfer::SwitchClaimByClaim) && self.switch(&mut after)
            }
            TransferAction::SwitchOne(name) => {
                self.broken == Some(BrokenTransfer::SwitchClaimByClaim) && self.switch_one(&mut after, name)
            }
            TransferAction::Reverse => self.reverse(&mut after),
            TransferAction::Release(name) => self.release(&mut after, name),
            TransferAction::Cancel(name) => self.cancel(&mut after, name),
            TransferAction::RollbackOfItsUuid(name) => {
                after.claims[name] = Claim::Free;
                self.broken == Some(BrokenTransfer::RolledBackAsLease) && before.claims[name] == Claim::Transferring
            }
            TransferAction::Copy(name) => {
                after.rows[NEW][name] = Row::Customer;
                before.claims[name] == Claim::Transferring
                    && before.rows[OLD][name] == Row::Customer
                    && before.at[name] == OLD
            }
            TransferAction::RemoveOld(name) => {
                after.rows[OLD][name] = Row::None;
                before.claims[name] == Claim::Transferring && before.at[name] == NEW
            }
            TransferAction::RemoveCopy(name) => {
                after.rows[NEW][name] = Row::None;
                before.claims[name] == Claim::Transferring && before.at[name] == OLD
            }
            TransferAction::Compare(cell, name) => self.compare(&mut after, cell, name),
            TransferAction::Correct(cell) => self.correct(&mut after, cell),
            TransferAction::Read(name) => self.read(&mut after, name),
        };
        (possible && after != *before).then_some(after)
    }

    /// Returns the answer of a read, in one snapshot.
    pub fn owner(&self, state: &TransferWorld, name: usize) -> Option<usize> {
        match state.claims[name] {
            Claim::Free => None,
            Claim::Active { owner } => Some(owner),
            Claim::Creating { lease } | Claim::Destroying { lease } => Some(self.wishes[lease].cell),
            Claim::Transferring if self.broken == Some(BrokenTransfer::ReadByStoredCell) => Some(OLD),
            Claim::Transferring => Some(state.at[name]),
        }
    }

    fn open(&self, state: &mut TransferWorld, lease: usize) -> bool {
        let wish = self.wishes[lease];
        let found = state.rows[wish.cell][wish.name];
        let is_there = if wish.creates { found == Row::None } else { found == wish.row };
        let is_new = state.leases[lease].local == Local::NotBegun;
        state.leases[lease].local = Local::Open;
        is_new && is_there
    }

    fn begin(&self, state: &mut TransferWorld, lease: usize) -> bool {
        let wish = self.wishes[lease];
        let (wanted, taken) = match wish.creates {
            true => (Claim::Free, Claim::Creating { lease }),
            false => (Claim::Active { owner: wish.cell }, Claim::Destroying { lease }),
        };
        let possible = state.leases[lease].end == End::Unknown && state.claims[wish.name] == wanted;
        state.leases[lease].end = End::Outstanding;
        state.claims[wish.name] = taken;
        possible
    }

    /// Commits the local transaction. It needs a lease, and the row must be as it was.
    fn commit_locally(&self, state: &mut TransferWorld, lease: usize) -> bool {
        let wish = self.wishes[lease];
        let it = state.leases[lease];
        let found = state.rows[wish.cell][wish.name];
        let is_there = if wish.creates { found == Row::None } else { found == wish.row };
        state.rows[wish.cell][wish.name] = if wish.creates { wish.row } else { Row::None };
        state.leases[lease].local = Local::Committed;
        it.local == Local::Open && it.end == End::Outstanding && is_there
    }

    /// Settles a lease by the end of its local transaction, in the session itself or in recovery. A rollback of a lease
    /// that has not begun is a fence.
    fn settle(&self, state: &mut TransferWorld, lease: usize) -> bool {
        let wish = self.wishes[lease];
        let it = state.leases[lease];
        let holds = matches!(state.claims[wish.name], Claim::Creating { lease: of } | Claim::Destroying { lease: of } if of == lease);
        let (end, claim) = match (it.local, wish.creates) {
            (Local::Committed, true) | (Local::RolledBack, false) => (it.local, Claim::Active { owner: wish.cell }),
            (Local::Committed, false) | (Local::RolledBack, true) => (it.local, Claim::Free),
            _ => return false,
        };
        let is_fence = it.end == End::Unknown && end == Local::RolledBack;
        if it.end == End::Outstanding {
            // A lease that does not hold its claims is an error, and stays outstanding.
            if !holds {
                return false;
            }
            state.claims[wish.name] = claim;
        }
        state.leases[lease].end = if end == Local::Committed { End::Committed } else { End::RolledBack };
        it.end == End::Outstanding || is_fence
    }

    fn mark(&self, state: &mut TransferWorld, name: usize) -> bool {
        let is_his = match state.claims[name] {
            Claim::Active { owner } => owner == OLD,
            Claim::Creating { lease } | Claim::Destroying { lease } => {
                self.broken == Some(BrokenTransfer::LeasedMarked) && self.wishes[lease].cell == OLD
            }
            Claim::Free | Claim::Transferring => false,
        };
        let possible = matches!(state.stage, Stage::Preparing | Stage::Prepared) && is_his;
        state.claims[name] = Claim::Transferring;
        state.marked[name] = true;
        state.stage = Stage::Preparing;
        possible
    }

    /// Ends a pass that has nothing left to mark and has skipped nothing.
    fn end_pass(&self, state: &mut TransferWorld) -> bool {
        let is_left = |claim: &Claim| match claim {
            Claim::Active { owner } => *owner == OLD,
            Claim::Creating { lease } | Claim::Destroying { lease } => self.wishes[*lease].cell == OLD,
            Claim::Free | Claim::Transferring => false,
        };
        let possible = state.stage == Stage::Preparing && !state.claims.iter().any(is_left);
        state.stage = Stage::Prepared;
        possible
    }

    /// Switches. The operator has copied the rows before.
    fn switch(&self, state: &mut TransferWorld) -> bool {
        let has_copies =
            (0..NAMES).all(|name| state.claims[name] != Claim::Transferring || state.rows[NEW][name] == Row::Customer);
        let possible = state.stage == Stage::Prepared && has_copies;
        state.at = [NEW; NAMES];
        state.stage = Stage::Switched;
        possible
    }

    fn switch_one(&self, state: &mut TransferWorld, name: usize) -> bool {
        let has_copy = state.rows[NEW][name] == Row::Customer;
        let possible = state.stage == Stage::Prepared && state.claims[name] == Claim::Transferring && has_copy;
        state.at[name] = NEW;
        let all = (0..NAMES).all(|name| state.claims[name] != Claim::Transferring || state.at[name] == NEW);
        if all {
            state.at = [NEW; NAMES];
            state.stage = Stage::Switched;
        }
        possible
    }

    /// Reverses the switch. The operator has not removed the old rows yet.
    fn reverse(&self, state: &mut TransferWorld) -> bool {
        let has_rows =
            (0..NAMES).all(|name| state.claims[name] != Claim::Transferring || state.rows[OLD][name] == Row::Customer);
        let from = match state.stage {
            Stage::Switched => true,
            Stage::Finishing => self.broken == Some(BrokenTransfer::ReversedWhileFinishing),
            _ => false,
        };
        state.at = [OLD; NAMES];
        state.stage = Stage::Prepared;
        from && has_rows && state.holds_some()
    }

    /// Does one step of finish. The operator has removed the rows of the cell that the customer leaves.
    fn release(&self, state: &mut TransferWorld, name: usize) -> bool {
        let at = state.at[name];
        let is_left =
            self.broken == Some(BrokenTransfer::RowsLeftBehind) || state.rows[OLD + NEW - at][name] == Row::None;
        let possible = matches!(state.stage, Stage::Switched | Stage::Finishing)
            && state.claims[name] == Claim::Transferring
            && is_left;
        state.claims[name] = Claim::Active { owner: at };
        state.stage = if state.holds_some() { Stage::Finishing } else { Stage::Finished };
        possible
    }

    /// Does one step of cancel. The operator has removed the copies.
    fn cancel(&self, state: &mut TransferWorld, name: usize) -> bool {
        let possible = matches!(state.stage, Stage::Preparing | Stage::Prepared)
            && state.at[name] == OLD
            && state.claims[name] == Claim::Transferring
            && state.rows[NEW][name] != Row::Customer;
        state.claims[name] = Claim::Active { owner: OLD };
        state.marked[name] = false;
        state.stage = if state.holds_some() { Stage::Preparing } else { Stage::Cancelled };
        possible
    }

    /// Compares one name of a cell. It locks the cell's row, so it does not compare a row that is being deleted.
    fn compare(&self, state: &mut TransferWorld, cell: usize, name: usize) -> bool {
        let is_open = (0..self.wishes.len()).any(|lease| {
            let wish = self.wishes[lease];
            (wish.cell, wish.name) == (cell, name) && state.leases[lease].local == Local::Open
        });
        let has_row = state.rows[cell][name] != Row::None;
        let claim = state.claims[name];
        let is_own = match claim {
            Claim::Active { owner } => owner == cell,
            Claim::Transferring => self.broken == Some(BrokenTransfer::VerifiedAsStored) && cell == OLD,
            _ => false,
        };
        state.findings[cell] = match claim {
            Claim::Free if has_row => Finding::Missing { name },
            _ if is_own && !has_row => Finding::Extra { name, claim },
            _ => Finding::None,
        };
        !is_open
    }

    /// Corrects a finding if the claim is still as it was found. A newer claim of the same name is another claim, which
    /// the model cannot tell from it; but then the cell has a row.
    fn correct(&self, state: &mut TransferWorld, cell: usize) -> bool {
        let finding = state.findings[cell];
        state.findings[cell] = Finding::None;
        match finding {
            Finding::None => return false,
            Finding::Extra { name, claim } => {
                if state.claims[name] == claim && state.rows[cell][name] == Row::None {
                    state.claims[name] = Claim::Free;
                }
            }
            Finding::Missing { name } => {
                if state.claims[name] == Claim::Free && state.rows[cell][name] != Row::None {
                    state.claims[name] = Claim::Active { owner: cell };
                }
            }
        }
        true
    }

    /// Reads a name as a router does, and checks the answer.
    fn read(&self, state: &mut TransferWorld, name: usize) -> bool {
        if !matches!(state.claims[name], Claim::Active { .. } | Claim::Transferring) {
            return false;
        }
        let mut told = self.owner(state, name);
        if self.broken == Some(BrokenTransfer::RowRemembered) && state.claims[name] == Claim::Transferring {
            told = Some(*state.remembered.get_or_insert(state.at[name]));
        }
        // While both cells have the row, before the old rows are removed, only the switched row counts.
        let truth = match state.claims[name] {
            Claim::Transferring => Some(state.at[name]),
            _ => told,
        };
        state.misled |= told != truth || told.is_none_or(|cell| state.rows[cell][name] == Row::None);
        true
    }

    /// Returns whether an operator and recovery can end everything from here.
    pub fn comes_to_an_end(&self, state: &TransferWorld) -> bool {
        let mut state = state.clone();
        let leases = 0..self.wishes.len();
        for lease in leases.clone() {
            state = self.apply(&state, TransferAction::RollBackLocally(lease)).unwrap_or(state);
            state = self.apply(&state, TransferAction::Settle(lease)).unwrap_or(state);
        }
        let ending = |name| {
            [
                TransferAction::RemoveOld(name),
                TransferAction::Release(name),
                TransferAction::RemoveCopy(name),
                TransferAction::Cancel(name),
            ]
        };
        // Each name needs two steps, after the switch as before it.
        for action in (0..NAMES).flat_map(ending) {
            state = self.apply(&state, action).unwrap_or(state);
        }
        let is_settled = |lease: usize| state.leases[lease].end != End::Outstanding;
        !state.holds_some() && leases.into_iter().all(is_settled) && state.findings.len() == CELLS
    }
}
