//! Sessions that save at full services, in every interleaving of their steps: they take turns, wait for places for connections, keep
//! connections between saves, fail and die. While the services answer, somebody can always make a step, and in the end all have saved.
//!
//! The queues are the extension's own (`claims_model::turns`, `claims_model::places`). The rest is what a session does with them. No
//! step repeats for ever, so a state without a step is the only way in which a session could wait for ever.

mod state;
mod steps;

use state::{SERVICES, SESSIONS, World};
use stateright::{Checker, Model, Property};

/// A fault that the model puts into the sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// A session keeps its turn while it waits for a place at the service.
    KeepsTurn,
    /// It keeps its turn at one service while it waits for a place at the next one.
    KeepsTurnAtOther,
    /// It keeps its connections to services of larger keys while it waits for a place.
    KeepsConnections,
    /// A session that waits no longer for a place does not wake the one whose turn it is to try.
    WakesNobody,
    /// A session that pauses does not pass its turn on.
    PausesSilently,
    /// A session that resumes stands behind those that arrived later.
    ResumesLast,
    /// A session connects although others wait for a place.
    Overtakes,
    /// A session gives its connection up only when it ends its transaction.
    KeepsPlace,
    /// A session keeps its turn while its call waits for a lease.
    WaitsWithTurn,
}

/// A state in which a session stays for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stays {
    /// It leaves its transaction open after its calls.
    InTransaction,
    /// Its call waits for a lease that does not end.
    ForLease,
}

#[derive(Debug, Clone)]
pub struct Full {
    /// The services of each session's saves: one after the other, each with names of some services.
    pub saves: [&'static [&'static [usize]]; SESSIONS],
    /// The number of calls at once, and of places.
    pub limit: u32,
    pub places: [u8; SERVICES],
    /// The number of calls of each save at each service.
    pub calls: u8,
    /// The number of sessions that may die, and of saves that may be cancelled.
    pub deaths: u8,
    pub cancels: u8,
    /// The session that does not save, but stays as it is.
    pub stays: [Option<Stays>; SESSIONS],
    pub broken: Option<Broken>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Step(usize),
    /// A session ends a transaction, and keeps its connections, or gives those up that others wait for.
    End(usize, bool),
    /// A session that does not save closes a connection that it has not used for long. Nobody is told.
    CloseIdle(usize, usize),
    /// A session that waits for a place has another one close a connection that no call uses.
    HandOver(usize, usize),
    Die(usize),
    Cancel(usize),
}

impl Model for Full {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, state: &World, actions: &mut Vec<Action>) {
        for session in 0..SESSIONS {
            if state.can_step(session, self) {
                actions.push(Action::Step(session));
            }
            if state.is_at_end(session) && self.stays[session] != Some(Stays::InTransaction) {
                actions.extend([Action::End(session, false), Action::End(session, true)]);
            }
            let idle = (0..SERVICES).filter(|service| state.is_idle(session, *service));
            actions.extend(idle.map(|service| Action::CloseIdle(session, service)));
            let unused = (0..SERVICES).filter(|service| state.can_be_asked(session, *service, self));
            actions.extend(unused.map(|service| Action::HandOver(session, service)));
            if state.is_in_save(session, self) {
                if state.deaths < self.deaths {
                    actions.push(Action::Die(session));
                }
                if state.cancels < self.cancels {
                    actions.push(Action::Cancel(session));
                }
            }
        }
    }

    fn next_state(&self, before: &World, action: Action) -> Option<World> {
        let mut after = before.clone();
        match action {
            Action::Step(session) => after.step(session, self),
            Action::End(session, gives) => after.end(session, gives),
            Action::CloseIdle(session, service) => after.close_idle(session, service),
            Action::HandOver(session, service) => after.hand_over(session, service),
            Action::Die(session) => after.die(session, self),
            Action::Cancel(session) => after.cancel(session, self),
        }
        Some(after)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(MOVES, |model: &Self, state: &World| {
                let mut steps = Vec::new();
                model.actions(state, &mut steps);
                // It needs neither a death nor a cancel.
                steps.retain(|step| !matches!(step, Action::Die(_) | Action::Cancel(_)));
                state.is_done(model) || !steps.is_empty()
            }),
            Property::always(LIMITED, |model: &Self, state: &World| state.most_calls() <= model.limit),
            Property::always(IN_ORDER, |_, state: &World| !state.was_overtaken),
            Property::always(NOTHING_LEFT, |model: &Self, state: &World| {
                !state.is_done(model) || state.is_nothing_left(model)
            }),
            Property::sometimes(DONE, |model: &Self, state: &World| state.is_done(model)),
            Property::sometimes(WAITED, |_, state: &World| state.has_waited_for_place),
        ]
    }
}

const MOVES: &str = "somebody can make a step until all have saved";
const LIMITED: &str = "no more calls than the limit are made at once";
const IN_ORDER: &str = "nobody is overtaken";
const NOTHING_LEFT: &str = "in the end nobody waits, and no call or place is counted";
const DONE: &str = "all have saved";
const WAITED: &str = "a session waits for a place";

const PROMISES: [&str; 4] = [MOVES, LIMITED, IN_ORDER, NOTHING_LEFT];

const FIRST: &[&[usize]] = &[&[0]];
const SECOND_THEN_FIRST: &[&[usize]] = &[&[1], &[0]];
const FIRST_THEN_SECOND: &[&[usize]] = &[&[0], &[1]];
const BOTH: &[&[usize]] = &[&[0, 1]];

/// Fewer places than turns.
const FEW_PLACES: Full = Full {
    saves: [FIRST, FIRST, FIRST],
    limit: 2,
    places: [1, 1],
    calls: 2,
    deaths: 0,
    cancels: 0,
    stays: [None; SESSIONS],
    broken: None,
};

/// Fewer turns than places.
const FEW_TURNS: Full = Full { limit: 1, places: [2, 1], ..FEW_PLACES };

/// Each service is full, and sessions save at both, one after the other or together.
const TWO_SERVICES: Full = Full {
    saves: [SECOND_THEN_FIRST, FIRST_THEN_SECOND, BOTH],
    limit: 1,
    places: [1, 1],
    calls: 1,
    deaths: 0,
    cancels: 0,
    stays: [None; SESSIONS],
    broken: None,
};

/// A session has a place at the service for ever, if nobody asks for it.
const STAYS_IN_TRANSACTION: Full =
    Full { stays: [Some(Stays::InTransaction), None, None], limit: 2, calls: 1, ..FEW_PLACES };

/// A call waits for ever.
const STAYS_FOR_LEASE: Full = Full { stays: [Some(Stays::ForLease), None, None], limit: 1, calls: 1, ..FEW_PLACES };

/// Visits every reachable state, and asserts that all promises hold.
fn holds(full: Full) {
    let checker = full.checker().threads(2).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    PROMISES.into_iter().for_each(|promise| checker.assert_no_discovery(promise));
    for event in [DONE, WAITED] {
        checker.assert_any_discovery(event);
    }
}

/// Asserts that the broken sessions break a promise.
fn breaks(broken: Broken, full: Full, promise: &'static str) {
    let full = Full { broken: Some(broken), deaths: 0, cancels: 0, ..full };
    full.checker().threads(2).spawn_bfs().join().assert_any_discovery(promise);
}

#[test]
fn a_service_has_fewer_places_than_turns() {
    holds(FEW_PLACES);
    holds(Full { calls: 1, deaths: 1, cancels: 1, ..FEW_PLACES });
}

#[test]
fn a_service_has_fewer_turns_than_places() {
    holds(FEW_TURNS);
    holds(Full { calls: 1, deaths: 1, cancels: 1, places: [1, 1], ..FEW_TURNS });
}

#[test]
fn two_services_are_full() {
    holds(TWO_SERVICES);
    holds(Full { saves: [BOTH, BOTH, SECOND_THEN_FIRST], ..TWO_SERVICES });
    holds(Full { limit: 2, ..TWO_SERVICES });
    holds(Full { saves: [BOTH, SECOND_THEN_FIRST, FIRST], cancels: 1, ..TWO_SERVICES });
}

#[test]
fn a_transaction_is_left_open() {
    holds(STAYS_IN_TRANSACTION);
    holds(Full { deaths: 1, cancels: 1, ..STAYS_IN_TRANSACTION });
    holds(Full { stays: [Some(Stays::InTransaction), Some(Stays::InTransaction), None], ..STAYS_IN_TRANSACTION });
    holds(Full { stays: [None, None, Some(Stays::InTransaction)], ..TWO_SERVICES });
}

#[test]
fn a_call_waits_for_a_lease_for_ever() {
    holds(STAYS_FOR_LEASE);
    holds(Full { deaths: 1, cancels: 1, ..STAYS_FOR_LEASE });
    holds(Full { stays: [Some(Stays::ForLease), Some(Stays::InTransaction), None], ..STAYS_FOR_LEASE });
}

#[test]
fn a_place_must_be_given_up_in_a_transaction() {
    breaks(Broken::KeepsPlace, STAYS_IN_TRANSACTION, MOVES);
    breaks(Broken::KeepsPlace, STAYS_FOR_LEASE, MOVES);
}

#[test]
fn a_call_must_not_wait_with_a_turn() {
    breaks(Broken::WaitsWithTurn, STAYS_FOR_LEASE, MOVES);
}

#[test]
fn waiting_with_a_turn_stands_still() {
    breaks(Broken::KeepsTurn, FEW_PLACES, MOVES);
}

#[test]
fn waiting_with_a_turn_elsewhere_stands_still() {
    breaks(Broken::KeepsTurnAtOther, Full { places: [2, 1], ..TWO_SERVICES }, MOVES);
}

#[test]
fn waiting_with_connections_elsewhere_stands_still() {
    breaks(Broken::KeepsConnections, TWO_SERVICES, MOVES);
}

#[test]
fn the_next_one_must_be_woken() {
    breaks(Broken::WakesNobody, FEW_PLACES, MOVES);
}

#[test]
fn a_turn_must_be_passed_on() {
    breaks(Broken::PausesSilently, FEW_PLACES, MOVES);
}

#[test]
fn a_session_that_resumes_must_not_stand_last() {
    breaks(Broken::ResumesLast, Full { saves: [&[&[0], &[0]], FIRST, FIRST], ..FEW_TURNS }, IN_ORDER);
}

#[test]
fn nobody_may_connect_while_others_wait() {
    breaks(Broken::Overtakes, FEW_PLACES, IN_ORDER);
}
