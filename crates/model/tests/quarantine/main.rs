//! Names that are kept back, in every interleaving of two cells' leases, a reclaim, the end of the time, the worker that purges, an
//! administrator, a transfer and a change of the profile.
//!
//! Each action is one transaction; a begin is two, because it looks first. The next step may be done by another process, much later, or
//! never. Who may have a name is decided by the extension's own rules (`claims_model::quarantine`, `claims_model::conflict`).

mod state;
mod steps;

use state::{CUSTOMER, Lease, NAMES, NEW, OLD, Person, Row, Stage, Truth, Wish, World};
use stateright::{Checker, Model, Property};

/// A fault that the model puts into the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    /// The commit of a destroy frees the name.
    CommitFrees,
    /// The rollback of a reclaim frees the name.
    RollbackFrees,
    /// The statement that reclaims a name does not repeat the condition under which the begin has seen it.
    ReclaimUnchecked,
    /// The worker deletes what it has seen, without looking again.
    PurgeUnchecked,
    /// The worker also deletes a name whose time is over while a lease reclaims it.
    PurgeOfReclaimed,
    /// A transfer leaves the right to names that are kept back with the old cell.
    RightStays,
    /// A transfer does not wait for leases that reclaim names.
    ReclaimsMissed,
    /// A change of the profile does not compare names that are kept back.
    ProfileForgets,
    /// A change of the profile does not wait for leases that reclaim names.
    ProfileOfReclaimed,
    /// A hand-over does not ask whether a lease holds the name.
    HandOverOfLeased,
}

#[derive(Debug, Clone)]
struct Quarantine {
    wishes: &'static [Wish],
    has_transfer: bool,
    has_profile: bool,
    broken: Option<Broken>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Look(usize),
    Take(usize),
    Commit(usize),
    RollBack(usize),
    EndOfTime(usize),
    SeeOver(usize),
    Purge,
    /// An administrator frees a name at once.
    Release(usize),
    /// An administrator gives a name to the person who stays.
    HandOver(usize),
    BeginTransfer,
    Mark(usize),
    EndPass,
    Switch,
    Move(usize),
    MoveRight(usize),
    Finish,
    ChangeProfile,
}

impl Model for Quarantine {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.wishes.len())]
    }

    fn actions(&self, _: &World, actions: &mut Vec<Action>) {
        for lease in 0..self.wishes.len() {
            actions.extend([Action::Look(lease), Action::Take(lease), Action::Commit(lease), Action::RollBack(lease)]);
        }
        for name in 0..NAMES {
            actions.extend([
                Action::EndOfTime(name),
                Action::SeeOver(name),
                Action::Release(name),
                Action::HandOver(name),
            ]);
        }
        actions.push(Action::Purge);
        if self.has_transfer {
            actions.extend([Action::BeginTransfer, Action::EndPass, Action::Switch, Action::Finish]);
            actions
                .extend((0..NAMES).flat_map(|name| [Action::Mark(name), Action::Move(name), Action::MoveRight(name)]));
        }
        if self.has_profile {
            actions.push(Action::ChangeProfile);
        }
    }

    fn next_state(&self, state: &World, action: Action) -> Option<World> {
        self.apply(state, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(STRANGER, |_, state: &World| !state.stranger),
            Property::always(TWO_OWNERS, |_, state: &World| !state.two_owners),
            Property::always(HELD, |_, state: &World| {
                let holds = |lease| {
                    let is_held = |row: &Row| {
                        matches!(row, Row::Creating { lease: of } | Row::Destroying { lease: of } | Row::Reclaiming { lease: of, .. }
                                 if *of == lease)
                    };
                    state.rows.iter().any(is_held)
                };
                let outstanding = |lease: &usize| state.leases[*lease] == Lease::Outstanding;
                !state.damaged && (0..state.leases.len()).filter(outstanding).all(holds)
            }),
            Property::always(KEPT, |_, state: &World| {
                // Whoever has given a name up finds it kept back, as long as its time lasts.
                let is_kept = |name: usize| match (state.truth[name], state.rows[name]) {
                    (Truth::GivenUp(_), Row::KeptBack { is_over, .. } | Row::Reclaiming { is_over, .. }) => !is_over,
                    (Truth::GivenUp(_), _) => false,
                    _ => true,
                };
                (0..NAMES).all(is_kept)
            }),
            Property::always(RIGHT_MOVES, |_, state: &World| {
                let is_with = |name: usize| match (state.truth[name], state.rows[name]) {
                    (Truth::GivenUp(person), Row::KeptBack { by, .. }) => by == person,
                    _ => true,
                };
                state.stage != Stage::Finished || (0..NAMES).all(is_with)
            }),
            Property::always(LEFT_BEHIND, |_, state: &World| !state.left_behind),
            // These properties show that the model reaches the interesting states.
            Property::sometimes(RECLAIMED, |model: &Quarantine, state: &World| {
                state.leases[RECLAIM] == Lease::Ended && state.truth[0] == Truth::Owned(model.wishes[RECLAIM].person)
            }),
            Property::sometimes(TAKEN_AFTER, |model: &Quarantine, state: &World| {
                state.truth[0] == Truth::Owned(model.wishes[OTHER].person) && state.leases[OTHER] == Lease::Ended
            }),
            Property::sometimes(MOVED, |model: &Quarantine, state: &World| {
                let has_taken =
                    state.truth[0] == Truth::Owned(MOVED_PERSON) && state.leases[RECLAIM_THERE] == Lease::Ended;
                !model.has_transfer || state.stage == Stage::Finished && has_taken
            }),
            Property::sometimes(FOLDED, |model: &Quarantine, state: &World| {
                !model.has_profile || state.is_folded && matches!(state.truth[0], Truth::GivenUp(_))
            }),
        ]
    }
}

const STRANGER: &str = "nobody else gets a name that is kept back";
const TWO_OWNERS: &str = "no name with two owners";
const HELD: &str = "every lease holds its name, and can be settled";
const KEPT: &str = "a name that was given up is kept back";
const RIGHT_MOVES: &str = "the right to a name moves with its customer";
const LEFT_BEHIND: &str = "a transfer waits for the leases of its customer";
const RECLAIMED: &str = "who gave a name up has it again";
const TAKEN_AFTER: &str = "another one has a name whose time is over";
const MOVED: &str = "a customer that has moved has its name again";
const FOLDED: &str = "a name that is kept back gets another form";

const ALWAYS: [&str; 6] = [STRANGER, TWO_OWNERS, HELD, KEPT, RIGHT_MOVES, LEFT_BEHIND];
const SOMETIMES: [&str; 4] = [RECLAIMED, TAKEN_AFTER, MOVED, FOLDED];

const MOVES: Person = Person { cell: OLD, subject: CUSTOMER };
const MOVED_PERSON: Person = Person { cell: NEW, subject: CUSTOMER };
const STAYS: Person = Person { cell: NEW, subject: 1 };
/// The positions of the wishes by which the customer has the name again, and somebody else gets it.
const RECLAIM: usize = 1;
const OTHER: usize = 2;
/// The position of the wish by which the customer takes the name in its new cell.
const RECLAIM_THERE: usize = 3;

/// The customer gives name 0 up and takes it again. Somebody else wants it, and gives it up.
const WISHES: &[Wish] = &[
    Wish { person: MOVES, name: 0, creates: false },
    Wish { person: MOVES, name: 0, creates: true },
    Wish { person: STAYS, name: 0, creates: true },
    Wish { person: STAYS, name: 0, creates: false },
];

/// The customer also takes the name in its new cell.
const WISHES_OF_MOVE: &[Wish] = &[
    Wish { person: MOVES, name: 0, creates: false },
    Wish { person: MOVES, name: 0, creates: true },
    Wish { person: STAYS, name: 0, creates: true },
    Wish { person: MOVED_PERSON, name: 0, creates: true },
];

/// Somebody else wants the other spelling.
const WISHES_OF_PROFILE: &[Wish] = &[
    Wish { person: MOVES, name: 0, creates: false },
    Wish { person: MOVES, name: 0, creates: true },
    Wish { person: STAYS, name: 0, creates: true },
    Wish { person: STAYS, name: 1, creates: true },
];

fn alone(broken: Option<Broken>) -> Quarantine {
    Quarantine { wishes: WISHES, has_transfer: false, has_profile: false, broken }
}

fn with_transfer(broken: Option<Broken>) -> Quarantine {
    Quarantine { wishes: WISHES_OF_MOVE, has_transfer: true, has_profile: false, broken }
}

fn with_profile(broken: Option<Broken>) -> Quarantine {
    Quarantine { wishes: WISHES_OF_PROFILE, has_transfer: false, has_profile: true, broken }
}

fn keeps(model: Quarantine) {
    let checker = model.checker().threads(2).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    ALWAYS.into_iter().for_each(|name| checker.assert_no_discovery(name));
    SOMETIMES.into_iter().for_each(|name| {
        checker.assert_any_discovery(name);
    });
}

/// Asserts that the broken protocol violates this property.
fn breaks(model: Quarantine, promise: &'static str) {
    model.checker().threads(2).spawn_bfs().join().assert_any_discovery(promise);
}

#[test]
fn a_name_is_kept_back() {
    keeps(alone(None));
}

#[test]
fn a_name_is_kept_back_while_its_customer_moves() {
    keeps(with_transfer(None));
}

#[test]
fn a_name_is_kept_back_while_the_profile_changes() {
    keeps(with_profile(None));
}

#[test]
fn the_commit_of_a_destroy_keeps_the_name() {
    breaks(alone(Some(Broken::CommitFrees)), KEPT);
}

#[test]
fn the_rollback_of_a_reclaim_keeps_the_name() {
    breaks(alone(Some(Broken::RollbackFrees)), KEPT);
}

#[test]
fn a_reclaim_checks_once_more() {
    breaks(alone(Some(Broken::ReclaimUnchecked)), STRANGER);
}

#[test]
fn a_purge_checks_once_more() {
    breaks(alone(Some(Broken::PurgeUnchecked)), TWO_OWNERS);
}

#[test]
fn a_purge_leaves_what_a_lease_reclaims() {
    breaks(alone(Some(Broken::PurgeOfReclaimed)), HELD);
}

#[test]
fn a_hand_over_leaves_what_a_lease_holds() {
    breaks(alone(Some(Broken::HandOverOfLeased)), HELD);
}

#[test]
fn a_transfer_moves_the_right() {
    breaks(with_transfer(Some(Broken::RightStays)), RIGHT_MOVES);
}

#[test]
fn a_transfer_waits_for_reclaims() {
    breaks(with_transfer(Some(Broken::ReclaimsMissed)), LEFT_BEHIND);
}

#[test]
fn a_profile_compares_what_is_kept_back() {
    breaks(with_profile(Some(Broken::ProfileForgets)), KEPT);
}

#[test]
fn a_profile_waits_for_reclaims() {
    breaks(with_profile(Some(Broken::ProfileOfReclaimed)), HELD);
}
