//! A customer moves from one cell to another, in every interleaving of the transfer, the cells' leases and their
//! recovery, verification with corrections in both cells, an operator who moves the rows, and a router.
//!
//! Each action is one transaction. The next step may always be done by another process, much later, or never. Recovery
//! is the one of the protocol model, which decides correctly. Here it may settle any lease whose transaction has ended,
//! at any time.

mod state;
mod steps;

use state::{CELLS, Claim, Finding, NAMES, NEW, OLD, Row, Stage, TransferWish, TransferWorld};
use stateright::{Checker, Model, Property};

/// A fault that the model puts into the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BrokenTransfer {
    /// The switch changes each claim, instead of the one row.
    SwitchClaimByClaim,
    /// A read uses the cell that is stored with the claim.
    ReadByStoredCell,
    /// A router uses a transfer's row that it has read before.
    RowRemembered,
    /// Verification treats a claim that a transfer holds like an ordinary claim of the stored cell.
    VerifiedAsStored,
    /// A transfer also marks claims that leases hold.
    LeasedMarked,
    /// A transfer is reversed while it is being finished.
    ReversedWhileFinishing,
    /// A rollback with the transfer's uuid frees the claims that it holds.
    RolledBackAsLease,
    /// The operator calls finish before the rows have left the old cell.
    RowsLeftBehind,
}

#[derive(Debug, Clone)]
struct Transfer {
    wishes: &'static [TransferWish],
    broken: Option<BrokenTransfer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TransferAction {
    // the cells' applications, and recovery
    Open(usize),
    BeginArrives(usize),
    CommitLocally(usize),
    RollBackLocally(usize),
    Settle(usize),
    // the transfer
    Mark(usize),
    EndPass,
    Switch,
    SwitchOne(usize),
    Reverse,
    Release(usize),
    Cancel(usize),
    RollbackOfItsUuid(usize),
    // the operator's rows
    Copy(usize),
    RemoveOld(usize),
    RemoveCopy(usize),
    // verification, and the router
    Compare(usize, usize),
    Correct(usize),
    Read(usize),
}

impl Model for Transfer {
    type State = TransferWorld;
    type Action = TransferAction;

    fn init_states(&self) -> Vec<TransferWorld> {
        vec![TransferWorld::new(self.wishes.len())]
    }

    fn actions(&self, _: &TransferWorld, actions: &mut Vec<TransferAction>) {
        for lease in 0..self.wishes.len() {
            actions.extend([
                TransferAction::Open(lease),
                TransferAction::BeginArrives(lease),
                TransferAction::CommitLocally(lease),
                TransferAction::RollBackLocally(lease),
                TransferAction::Settle(lease),
            ]);
        }
        for name in 0..NAMES {
            actions.extend([
                TransferAction::Mark(name),
                TransferAction::SwitchOne(name),
                TransferAction::Release(name),
                TransferAction::Cancel(name),
                TransferAction::RollbackOfItsUuid(name),
                TransferAction::Copy(name),
                TransferAction::RemoveOld(name),
                TransferAction::RemoveCopy(name),
                TransferAction::Read(name),
            ]);
            actions.extend((0..CELLS).map(|cell| TransferAction::Compare(cell, name)));
        }
        actions.extend((0..CELLS).map(TransferAction::Correct));
        actions.extend([TransferAction::EndPass, TransferAction::Switch, TransferAction::Reverse]);
    }

    fn next_state(&self, state: &TransferWorld, action: TransferAction) -> Option<TransferWorld> {
        self.apply(state, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NO_OWNER, |_, state: &TransferWorld| {
                (0..NAMES).all(|name| {
                    let has_row = state.rows.iter().any(|rows| rows[name] != Row::None);
                    !has_row || state.claims[name] != Claim::Free
                })
            }),
            Property::always(TWO_OWNERS, |_, state: &TransferWorld| {
                (0..NAMES).all(|name| {
                    let has = |row| state.rows.iter().any(|rows| rows[name] == row);
                    !(has(Row::Customer) && has(Row::Other))
                })
            }),
            Property::always(WRONG_CELL, |transfer: &Transfer, state: &TransferWorld| {
                // A read may lead to a claim that is being created before its row exists, or to one that is being
                // destroyed after its row is gone.
                let is_settled =
                    |name: &usize| matches!(state.claims[*name], Claim::Active { .. } | Claim::Transferring);
                let has_row =
                    |name: usize| transfer.owner(state, name).is_some_and(|owner| state.rows[owner][name] != Row::None);
                !state.misled && (0..NAMES).filter(is_settled).all(has_row)
            }),
            Property::always(SPLIT, |transfer: &Transfer, state: &TransferWorld| {
                // Claims that were prepared together are at one cell, until the transfer has ended.
                let has_ended = matches!(state.stage, Stage::Finished | Stage::Cancelled);
                // The new cell may by then have given up a claim that is already finished.
                let marked = (0..NAMES).filter(|name| !has_ended && state.marked[*name]);
                let mut cells = marked.filter_map(|name| transfer.owner(state, name));
                let first = cells.next();
                cells.all(|cell| Some(cell) == first)
            }),
            Property::always(STUCK, |transfer: &Transfer, state: &TransferWorld| transfer.comes_to_an_end(state)),
            Property::always(NOTHING_TO_CORRECT, |_, state: &TransferWorld| {
                state.findings.iter().all(|finding| *finding == Finding::None)
            }),
            // These properties show that the model reaches the interesting states.
            Property::sometimes(MOVED, |_, state: &TransferWorld| {
                state.stage == Stage::Finished && state.rows[NEW] == [Row::Customer; NAMES] && !state.holds_some()
            }),
            Property::sometimes(TAKEN_OVER, |_, state: &TransferWorld| {
                state.rows.iter().any(|rows| rows.contains(&Row::Other))
            }),
            Property::sometimes(STRAGGLER, |_, state: &TransferWorld| {
                state.stage == Stage::Finished
                    && state.at[0] == NEW
                    && state.claims[1] == (Claim::Active { owner: OLD })
            }),
        ]
    }
}

const NO_OWNER: &str = "no row whose name is free";
const TWO_OWNERS: &str = "no name with two owners";
const WRONG_CELL: &str = "every read names a cell that has the row";
const SPLIT: &str = "what was prepared together is at one cell";
const STUCK: &str = "every transfer can be ended, and every lease settled";
const NOTHING_TO_CORRECT: &str = "verification finds nothing that it would correct";
const MOVED: &str = "the customer has moved with all names";
const TAKEN_OVER: &str = "a name that was given up has another owner";
const STRAGGLER: &str = "a name that was made too late stays in the old cell";

/// The customer creates name 1 and gives up name 0. In its new cell another row wants name 0, and the customer gives up
/// name 1.
const WISHES: &[TransferWish] = &[
    TransferWish { cell: OLD, name: 1, creates: true, row: Row::Customer },
    TransferWish { cell: OLD, name: 0, creates: false, row: Row::Customer },
    TransferWish { cell: NEW, name: 0, creates: true, row: Row::Other },
    TransferWish { cell: NEW, name: 1, creates: false, row: Row::Customer },
];

fn transfer(broken: Option<BrokenTransfer>) -> Transfer {
    Transfer { wishes: WISHES, broken }
}

/// Asserts that the broken protocol violates these properties.
fn breaks(broken: BrokenTransfer, promises: &[&'static str]) {
    let checker = transfer(Some(broken)).checker().threads(2).spawn_bfs().join();
    promises.iter().for_each(|promise| {
        checker.assert_any_discovery(promise);
    });
}

#[test]
fn a_customer_moves() {
    let checker = transfer(None).checker().threads(2).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    [NO_OWNER, TWO_OWNERS, WRONG_CELL, SPLIT, STUCK, NOTHING_TO_CORRECT].into_iter().for_each(|name| {
        checker.assert_no_discovery(name);
    });
    [MOVED, TAKEN_OVER, STRAGGLER].into_iter().for_each(|name| {
        checker.assert_any_discovery(name);
    });
}

#[test]
fn a_switch_is_one_row() {
    breaks(BrokenTransfer::SwitchClaimByClaim, &[SPLIT]);
}

#[test]
fn every_read_goes_by_that_row() {
    breaks(BrokenTransfer::ReadByStoredCell, &[WRONG_CELL]);
}

#[test]
fn the_row_is_read_with_the_claim() {
    breaks(BrokenTransfer::RowRemembered, &[WRONG_CELL]);
}

#[test]
fn verification_leaves_alone_what_a_transfer_holds() {
    breaks(BrokenTransfer::VerifiedAsStored, &[NO_OWNER, NOTHING_TO_CORRECT]);
}

#[test]
fn claims_that_leases_hold_are_not_marked() {
    breaks(BrokenTransfer::LeasedMarked, &[WRONG_CELL, STUCK]);
}

#[test]
fn there_is_no_way_back_from_finishing() {
    breaks(BrokenTransfer::ReversedWhileFinishing, &[SPLIT]);
}

#[test]
fn a_transfer_is_no_lease() {
    breaks(BrokenTransfer::RolledBackAsLease, &[NO_OWNER, TWO_OWNERS]);
}

#[test]
fn rows_leave_the_old_cell_before_the_claims_are_anybodys() {
    breaks(BrokenTransfer::RowsLeftBehind, &[NO_OWNER]);
}
