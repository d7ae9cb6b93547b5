//! Transactions with names of two services. Each has a lease at either, all or none: the model checks every interleaving of begins that
//! are on their way to both, refusals, crashes, services that are dead for a while, repeats and recovery.
//!
//! The verdict is the extension's own (`claims_model::judge`). `protocol` checks the steps of recovery at one service in more detail.

mod state;
mod steps;

use state::{CELLS, Claim, End, LeaseId, Local, PassStage, SERVICES, Wish, World};
use stateright::{Checker, Model, Property};

/// A fault that the model puts into the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    /// A transaction commits with the leases that it got, although one service has refused its part.
    RefusalIgnored,
    /// A transaction tracks only the lease of its first service.
    FirstTracked,
    /// A lease is committed at a service before the local transaction has committed.
    CommittedEarly,
    /// Tracking ignores fences.
    FenceIgnored,
    /// A pass at one service asks it for the leases of the other one, too.
    OrphansOfAll,
    /// One pass recovers at all services, and fails if one of them is dead.
    OnePassForAll,
}

#[derive(Debug, Clone)]
struct TwoServices {
    wishes: &'static [Wish],
    recoveries: usize,
    /// The begins had the id of the local transaction as an argument.
    named: bool,
    dying: Dying,
    broken: Option<Broken>,
}

/// The times at which service 0 is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dying {
    Never,
    /// It dies and comes back, at any time.
    AtTimes,
    Always,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Open(usize),
    BeginArrives(LeaseId),
    Track(LeaseId),
    CommitLocally(usize),
    RollBackLocally(usize),
    CommitArrives(LeaseId),
    RollbackArrives(LeaseId),
    /// The session has received the service's confirmation of the commit.
    Forget(LeaseId),
    List(usize, LeaseId),
    Advance(usize),
    /// A pass fails or is canceled.
    Abandon(usize),
    FindOrphans(usize),
    Crash(usize),
    DieOrRevive,
}

impl TwoServices {
    /// Applies an action. Returns `None` if it is impossible or changes nothing.
    fn apply(&self, before: &World, action: Action) -> Option<World> {
        let mut after = before.clone();
        let possible = match action {
            Action::Open(transaction) => self.open(&mut after, transaction),
            Action::BeginArrives(id) => self.begin(&mut after, id),
            Action::Track(id) => self.track(&mut after, id),
            Action::CommitLocally(transaction) => self.commit_locally(&mut after, transaction),
            Action::RollBackLocally(transaction) => self.roll_back_locally(&mut after, transaction),
            Action::CommitArrives(id) => self.commit(&mut after, id),
            Action::RollbackArrives(id) => self.roll_back(&mut after, id),
            Action::Forget(id) => {
                after.lease_mut(id).tracked = false;
                before.lease(id).outcome == End::Committed
            }
            Action::List(slot, id) => self.list(&mut after, slot, id),
            Action::Advance(slot) => self.advance(&mut after, slot),
            Action::Abandon(slot) => {
                after.passes[slot] = PassStage::Idle;
                true
            }
            Action::FindOrphans(service) => self.find_orphans(&mut after, service),
            Action::Crash(cell) => {
                self.crash(&mut after, cell);
                true
            }
            Action::DieOrRevive => {
                after.is_dead[0] = !before.is_dead[0];
                self.dying == Dying::AtTimes
            }
        };
        // Passes are interchangeable, so their order is not part of the state.
        after.passes.sort_unstable();
        (possible && after != *before).then_some(after)
    }

    /// Returns the state after the cells have crashed, and recovery alone has run at every service that lives.
    fn recovered(&self, state: &World) -> World {
        let mut state = state.clone();
        (0..CELLS).for_each(|cell| self.crash(&mut state, cell));
        for id in self.leases() {
            // One pass fences, the next one settles.
            for _ in 0..2 {
                let Some(listed) = self.apply(&state, Action::List(0, id)) else { break };
                state = listed;
                while let Some(slot) = state.passes.iter().position(|pass| *pass != PassStage::Idle) {
                    let next = [Action::Advance(slot), Action::CommitArrives(id), Action::RollbackArrives(id)];
                    match next.into_iter().find_map(|action| self.apply(&state, action)) {
                        Some(next) => state = next,
                        None => return state,
                    }
                }
            }
        }
        for service in 0..SERVICES {
            self.find_orphans(&mut state, service);
        }
        state
    }

    /// Returns whether nothing is left to do at a service: its claim is that of the row, and no lease of it is outstanding or tracked.
    fn is_settled(&self, state: &World, service: usize) -> bool {
        let agrees = match state.claims[service] {
            Claim::Free => (0..CELLS).all(|cell| !state.rows[cell][service]),
            Claim::Active { owner } => (0..CELLS).all(|cell| state.rows[cell][service] == (cell == owner)),
            Claim::Creating { .. } => false,
        };
        let is_done = |id: LeaseId| state.lease(id).outcome != End::Outstanding && !state.lease(id).tracked;
        agrees && self.leases().filter(|id| id.service == service).all(is_done)
    }

    /// Returns whether a transaction has all of its claims or none, as its local end says, once everything is settled.
    fn is_whole(&self, state: &World, transaction: usize) -> bool {
        let is_committed = |id: LeaseId| state.lease(id).outcome == End::Committed;
        match state.local[transaction] {
            Local::Committed => self.leases_of(transaction).all(is_committed),
            _ => !self.leases_of(transaction).any(is_committed),
        }
    }
}

impl Model for TwoServices {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.wishes.len(), self.recoveries, [self.dying == Dying::Always, false])]
    }

    fn actions(&self, _: &World, actions: &mut Vec<Action>) {
        for transaction in 0..self.wishes.len() {
            actions.extend([
                Action::Open(transaction),
                Action::CommitLocally(transaction),
                Action::RollBackLocally(transaction),
            ]);
        }
        for id in self.leases() {
            actions.extend([
                Action::BeginArrives(id),
                Action::Track(id),
                Action::CommitArrives(id),
                Action::RollbackArrives(id),
                Action::Forget(id),
            ]);
            actions.extend((0..self.recoveries).map(|slot| Action::List(slot, id)));
        }
        actions.extend((0..self.recoveries).flat_map(|slot| [Action::Advance(slot), Action::Abandon(slot)]));
        actions.extend((0..SERVICES).map(Action::FindOrphans));
        actions.extend((0..CELLS).map(Action::Crash));
        actions.push(Action::DieOrRevive);
    }

    fn next_state(&self, state: &World, action: Action) -> Option<World> {
        self.apply(state, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(TWO_OWNERS, |_, state: &World| {
                (0..SERVICES).all(|service| state.rows.iter().filter(|rows| rows[service]).count() < 2)
            }),
            Property::always(UNCLAIMED, |model: &TwoServices, state: &World| {
                let owner = |service: usize| match state.claims[service] {
                    Claim::Free => None,
                    Claim::Active { owner } => Some(owner),
                    Claim::Creating { transaction } => Some(model.wishes[transaction].cell),
                };
                let claimed = |cell: usize, service: usize| !state.rows[cell][service] || owner(service) == Some(cell);
                (0..CELLS).all(|cell| (0..SERVICES).all(|service| claimed(cell, service)))
            }),
            Property::always(HALF, |model: &TwoServices, state: &World| {
                let end = model.recovered(&state.revived());
                (0..model.wishes.len()).all(|transaction| model.is_whole(&end, transaction))
            }),
            Property::always(STUCK, |model: &TwoServices, state: &World| {
                let end = model.recovered(&state.revived());
                (0..SERVICES).all(|service| model.is_settled(&end, service))
            }),
            // Service 0 may be dead: the other one does not wait for it.
            Property::always(HELD_UP, |model: &TwoServices, state: &World| {
                model.is_settled(&model.recovered(state), 1)
            }),
            Property::always(ORPHAN, |_, state: &World| !state.has_orphan),
            // These properties show that the model reaches the interesting states.
            Property::sometimes(SAVED, |model: &TwoServices, state: &World| {
                let is_done = |id| state.lease(id).outcome == End::Committed && !state.lease(id).tracked;
                (0..model.wishes.len())
                    .any(|of| model.wishes[of].services.len() == 2 && model.leases_of(of).all(is_done))
            }),
            Property::sometimes(HALFWAY, |model: &TwoServices, state: &World| {
                let with = |of, end| model.leases_of(of).any(|id| state.lease(id).outcome == end);
                (0..model.wishes.len()).any(|of| with(of, End::Committed) && with(of, End::Outstanding))
            }),
            Property::sometimes(REFUSED, |model: &TwoServices, state: &World| {
                // One begin got its name, and the name of the other one has gone to the other cell.
                let holds = |of: usize, service: usize| state.claims[service] == Claim::Creating { transaction: of };
                let both = (0..model.wishes.len()).filter(|of| model.wishes[*of].services.len() == 2);
                both.filter(|of| state.local[*of] == Local::Open)
                    .any(|of| holds(of, 1) && state.claims[0] != Claim::Free && !holds(of, 0))
            }),
            Property::sometimes(ALONE, |model: &TwoServices, state: &World| {
                let is_saved = |of: usize| state.local[of] == Local::Committed && model.wishes[of].services == [1];
                let is_done = |of| model.leases_of(of).all(|id| !state.lease(id).tracked);
                state.is_dead[0] && (0..model.wishes.len()).any(|of| is_saved(of) && is_done(of))
            }),
        ]
    }
}

const TWO_OWNERS: &str = "no name with two owners";
const UNCLAIMED: &str = "no saved row without its claim";
const HALF: &str = "all claims of a transaction or none";
const STUCK: &str = "no lease that can never be settled";
const HELD_UP: &str = "a dead service holds up no lease of the other one";
const ORPHAN: &str = "no lease is taken for an orphan";
const PROMISES: [&str; 6] = [TWO_OWNERS, UNCLAIMED, HALF, STUCK, HELD_UP, ORPHAN];
const SAVED: &str = "names of both services are saved together";
const HALFWAY: &str = "one lease is committed while the other one is outstanding";
const REFUSED: &str = "one service has given its name, the other one has it given away";
const ALONE: &str = "a name of the living service is saved while the other one is dead";
const REACHED: [&str; 4] = [SAVED, HALFWAY, REFUSED, ALONE];

/// Two cells want the names of both services.
const RACE: &[Wish] = &[Wish { cell: 0, services: &[0, 1] }, Wish { cell: 1, services: &[0, 1] }];

/// A cell wants the names of both services, and the other one that of service 1 alone.
const LIVING: &[Wish] = &[Wish { cell: 0, services: &[0, 1] }, Wish { cell: 1, services: &[1] }];

fn two_services(wishes: &'static [Wish], named: bool, dying: Dying) -> TwoServices {
    TwoServices { wishes, recoveries: 2, named, dying, broken: None }
}

/// Visits every reachable state. Asserts that every promise holds, and that the interesting states are reached, except what is
/// `impossible` here.
fn holds(model: TwoServices, impossible: &[&'static str]) {
    let checker = model.checker().threads(2).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    PROMISES.into_iter().chain(impossible.iter().copied()).for_each(|name| {
        checker.assert_no_discovery(name);
    });
    REACHED.into_iter().filter(|name| !impossible.contains(name)).for_each(|name| {
        checker.assert_any_discovery(name);
    });
}

/// Asserts that the broken protocol violates these promises.
fn breaks(broken: Broken, wishes: &'static [Wish], dying: Dying, promises: &[&'static str]) {
    let model = TwoServices { broken: Some(broken), ..two_services(wishes, false, dying) };
    let checker = model.checker().threads(2).spawn_bfs().join();
    promises.iter().for_each(|promise| {
        checker.assert_any_discovery(promise);
    });
}

#[test]
fn two_cells_race_for_names_of_two_services_and_recovery_goes_by_age() {
    holds(two_services(RACE, false, Dying::Never), &[ALONE]);
}

#[test]
fn two_cells_race_for_names_of_two_services_and_recovery_knows_the_transaction() {
    holds(two_services(RACE, true, Dying::Never), &[ALONE]);
}

#[test]
fn a_service_dies_and_comes_back_at_any_time() {
    holds(two_services(LIVING, false, Dying::AtTimes), &[REFUSED]);
}

#[test]
fn one_service_is_dead_and_names_of_the_living_one_are_saved() {
    holds(two_services(LIVING, false, Dying::Always), &[SAVED, HALFWAY, REFUSED]);
}

#[test]
fn what_one_service_refuses_must_end_the_other_lease() {
    breaks(Broken::RefusalIgnored, RACE, Dying::Never, &[UNCLAIMED, TWO_OWNERS, HALF]);
}

#[test]
fn each_lease_must_be_tracked() {
    breaks(Broken::FirstTracked, RACE, Dying::Never, &[UNCLAIMED, HALF]);
}

#[test]
fn no_lease_may_be_committed_before_the_local_transaction() {
    breaks(Broken::CommittedEarly, RACE, Dying::Never, &[HALF, STUCK]);
}

#[test]
fn a_fence_of_one_lease_must_stop_the_transaction() {
    breaks(Broken::FenceIgnored, RACE, Dying::Never, &[UNCLAIMED, HALF]);
}

#[test]
fn a_service_must_be_asked_for_its_own_leases_only() {
    breaks(Broken::OrphansOfAll, RACE, Dying::Never, &[ORPHAN]);
}

#[test]
fn each_service_needs_passes_of_its_own() {
    breaks(Broken::OnePassForAll, LIVING, Dying::AtTimes, &[HELD_UP]);
}
