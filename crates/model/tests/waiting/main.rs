//! Calls that wait for names, in every interleaving of their steps with ends of leases, late and lost wake-ups, cancels,
//! deaths, deadlines and calls that do not wait.
//!
//! The queue is the extension's own (`claims_model::waiting`). The rest is the protocol around it: how a call looks at
//! its names, decides, tries, registers and sleeps. Time advances in ticks of 50 ms, and never past a live process that
//! has something to do. A dead process does nothing, and its slot stays.

mod call;
mod state;

use claims_model::waiting::{KEPT_US, POLL_US};
use state::{CLIENTS, Call, Client, Found, HeldBy, Kind, NAMES, Stage, World};
use stateright::{Checker, Model, Property};

/// A fault that the model puts into the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// A call that does not wait takes a free name without asking who waits for it.
    IgnoresWaiters,
    /// A waiter that has registered sleeps without another look.
    SleepsAtOnce,
    /// The end of a lease wakes its waiter before it is visible.
    WakesTooEarly,
    /// A canceled call leaves its slot behind.
    LeavesSlot,
    /// A name is kept for its first waiter for ever.
    KeepsForever,
    /// A waiter whose wake-up was lost never looks again.
    NeverPolls,
    /// A waiter registers for all names of its batch, also for those that are free.
    KeepsFreeNames,
    /// A waiter takes what it finds free in an attempt without asking who precedes it: it has asked when it looked, but perhaps for
    /// another batch, or its time is over.
    AsksOnce,
    /// A call answers with the conflicts of its last batch, whatever those of the others are.
    AnswersLast,
}

#[derive(Debug, Clone)]
pub struct Waiting {
    pub calls: [Call; CLIENTS],
    /// Names that other leases hold at the beginning.
    pub held: [bool; NAMES],
    /// The number of processes that may die, of wake-ups that may be lost, of calls that may be canceled, and of those whose time may be
    /// over at any step.
    pub deaths: u8,
    pub losses: u8,
    pub cancels: u8,
    pub deadlines: u8,
    /// The number of leases that may end in a commit, after which a name is taken for good.
    pub commits: u8,
    pub ticks: i64,
    /// Whether calls may begin after the first tick.
    pub is_late: bool,
    pub broken: Option<Broken>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// A call makes its next step.
    Step(usize),
    /// The lease on a name ends: the name is free, or taken for good.
    End(usize, bool),
    /// The session that has ended the lease wakes whom it concerns.
    Wake(usize),
    /// It dies before that.
    LoseWake(usize),
    Die(usize),
    Cancel(usize),
    /// The time is over for which a call waits.
    Deadline(usize),
    Tick,
}

impl Model for Waiting {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, state: &World, actions: &mut Vec<Action>) {
        for client in 0..CLIENTS {
            if state.can_step(client) {
                actions.push(Action::Step(client));
            }
            let is_open = state.clients[client].is_alive && state.clients[client].stage != Stage::Done;
            if is_open && state.deaths < self.deaths {
                actions.push(Action::Die(client));
            }
            if is_open && state.cancels < self.cancels {
                actions.push(Action::Cancel(client));
            }
            let waits = state.clients[client].place.is_some() && !state.clients[client].is_over;
            if is_open && waits && state.deadlines < self.deadlines {
                actions.push(Action::Deadline(client));
            }
        }
        for name in 0..NAMES {
            match state.names[name].holder {
                HeldBy::Lease => {
                    actions.push(Action::End(name, false));
                    if state.commits < self.commits {
                        actions.push(Action::End(name, true));
                    }
                }
                HeldBy::Nobody | HeldBy::Owner => {}
            }
            if state.names[name].wakes > 0 {
                actions.push(Action::Wake(name));
                if state.losses < self.losses {
                    actions.push(Action::LoseWake(name));
                }
            }
        }
        if state.now / POLL_US < self.ticks && state.is_quiet(self) {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, before: &World, action: Action) -> Option<World> {
        let mut after = before.clone();
        match action {
            Action::Step(client) => after.step(client, self),
            Action::End(name, is_for_good) => after.end(name, is_for_good, self.broken),
            Action::Wake(name) => after.wake(name),
            Action::LoseWake(name) => {
                after.names[name].wakes -= 1;
                after.losses += 1;
            }
            Action::Die(client) => {
                after.clients[client].is_alive = false;
                after.deaths += 1;
            }
            Action::Cancel(client) => after.cancel(client, self.broken),
            Action::Deadline(client) => {
                after.clients[client].is_over = true;
                after.deadlines += 1;
            }
            Action::Tick => after.tick(),
        }
        Some(after)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_PLACE, |_, state: &World| state.has_one_place_each()),
            Property::always(NOT_OVERTAKEN, |_, state: &World| !state.was_overtaken),
            // Without deaths and lost wake-ups no live waiter sleeps for a single tick while it could take its names.
            Property::always(PROMPT, |_, state: &World| {
                state.deaths + state.losses > 0 || state.clients.iter().all(|client| client.idle == 0)
            }),
            // A dead waiter costs KEPT_US, and a lost wake-up POLL_US. Ticks are whole, so the end is seen a tick later.
            Property::always(BOUNDED, |_, state: &World| {
                let ticks = i64::from(state.deaths) * (KEPT_US / POLL_US) + 1 + i64::from(state.losses);
                state.clients.iter().all(|client| client.idle <= ticks)
            }),
            Property::always(FREE, |_, state: &World| !state.was_kept_off),
            Property::always(NOT_MISLED, |_, state: &World| !state.was_misled),
            Property::sometimes(SERVED, |_, state: &World| state.clients.iter().any(|client| client.was_served)),
            Property::sometimes(REFUSED, |_, state: &World| state.clients.iter().any(Client::was_refused)),
            Property::sometimes(OVER, |_, state: &World| {
                state.clients.iter().any(|client| client.is_over && client.refused == Some(Found::Temporary))
            }),
        ]
    }
}

const ONE_PLACE: &str = "every waiter has one place of its own, and nobody else has one";
const NOT_OVERTAKEN: &str = "nobody takes a name before a live waiter that precedes";
const PROMPT: &str = "no waiter sleeps while it could take its names";
const BOUNDED: &str = "dead waiters and lost wake-ups cost a bounded time";
const FREE: &str = "a name that has been free all the time is kept from nobody";
const NOT_MISLED: &str = "a call that waits is refused for good only if all its batches are taken for good";
const SERVED: &str = "a call gets its names after it has waited";
const REFUSED: &str = "a call that does not wait is refused";
const OVER: &str = "a call whose time is over is refused, and may try again";

const PROMISES: [&str; 6] = [ONE_PLACE, NOT_OVERTAKEN, PROMPT, BOUNDED, FREE, NOT_MISLED];

/// Three calls want one name. The third one does not wait.
const ONE_NAME: Waiting = Waiting {
    calls: [(&[&[0]], Kind::Waits(0)), (&[&[0]], Kind::Waits(0)), (&[&[0]], Kind::Once)],
    held: [true, false],
    deaths: 1,
    losses: 0,
    cancels: 1,
    deadlines: 0,
    commits: 0,
    ticks: 4,
    is_late: true,
    broken: None,
};

/// Two calls want both names, in whatever order they come free, and the third one wants one of them.
const TWO_NAMES: Waiting = Waiting {
    calls: [(&[&[0, 1]], Kind::Waits(0)), (&[&[1, 0]], Kind::Waits(0)), (&[&[1]], Kind::Once)],
    held: [true, true],
    deaths: 0,
    losses: 0,
    cancels: 1,
    deadlines: 0,
    commits: 0,
    ticks: 2,
    is_late: true,
    broken: None,
};

/// The second call has a higher priority. A lease may be committed, and then its name is taken for good.
const PRIORITY: Waiting = Waiting {
    calls: [(&[&[0]], Kind::Waits(0)), (&[&[0]], Kind::Waits(1)), (&[&[0, 1]], Kind::Waits(0))],
    held: [true, false],
    deaths: 1,
    losses: 0,
    cancels: 0,
    deadlines: 0,
    commits: 1,
    ticks: 4,
    is_late: false,
    broken: None,
};

/// Three calls want one name. The time of one of them is over at any step.
const DEADLINES: Waiting = Waiting {
    calls: [WAITS, WAITS, WAITS],
    held: [true, false],
    deaths: 0,
    losses: 0,
    cancels: 0,
    deadlines: 1,
    commits: 0,
    ticks: 1,
    is_late: false,
    broken: None,
};

/// A call has two batches, of which one may be taken for good. Another call waits for the name of the first one, and a third one takes the
/// other name if it is free.
const ALTERNATIVES: Waiting = Waiting {
    calls: [(&[&[0], &[1]], Kind::Waits(0)), WAITS, (&[&[1]], Kind::Once)],
    held: [true, true],
    commits: 1,
    ticks: 0,
    ..DEADLINES
};

/// Visits every reachable state, and asserts that all promises hold.
fn holds(waiting: Waiting, also: &[&'static str]) {
    let checker = waiting.checker().threads(2).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    PROMISES.into_iter().for_each(|name| checker.assert_no_discovery(name));
    also.iter().for_each(|name| {
        checker.assert_any_discovery(name);
    });
}

/// Asserts that the broken protocol breaks a promise.
fn breaks(broken: Broken, waiting: Waiting, promise: &'static str) {
    let checker = Waiting { broken: Some(broken), ..waiting }.checker().threads(2).spawn_bfs().join();
    checker.assert_any_discovery(promise);
}

#[test]
fn calls_wait_for_one_name() {
    holds(ONE_NAME, &[SERVED, REFUSED]);
}

#[test]
fn calls_wait_for_two_names() {
    holds(TWO_NAMES, &[SERVED, REFUSED]);
}

#[test]
fn two_waiters_die() {
    holds(Waiting { deaths: 2, is_late: false, ..DEATHS }, &[SERVED]);
}

#[test]
fn a_wake_up_is_lost() {
    holds(Waiting { deaths: 0, losses: 1, cancels: 0, ..ONE_NAME }, &[SERVED]);
}

const WAITS: Call = (&[&[0]], Kind::Waits(0));

const DEATHS: Waiting = Waiting { cancels: 0, ticks: 8, calls: [WAITS, WAITS, WAITS], is_late: false, ..ONE_NAME };

#[test]
fn calls_have_priorities() {
    holds(PRIORITY, &[SERVED]);
}

#[test]
fn the_time_of_waiters_is_over_at_any_step() {
    holds(DEADLINES, &[SERVED, OVER]);
}

#[test]
fn calls_have_several_batches() {
    holds(ALTERNATIVES, &[SERVED, REFUSED, OVER]);
}

#[test]
fn a_call_at_its_deadline_must_ask_who_precedes() {
    breaks(Broken::AsksOnce, DEADLINES, NOT_OVERTAKEN);
}

#[test]
fn a_call_with_another_batch_must_ask_who_precedes() {
    breaks(Broken::AsksOnce, Waiting { deadlines: 0, commits: 0, ..ALTERNATIVES }, NOT_OVERTAKEN);
}

#[test]
fn a_temporary_conflict_must_be_the_answer() {
    breaks(Broken::AnswersLast, ALTERNATIVES, NOT_MISLED);
}

#[test]
fn a_call_that_asks_nobody_overtakes() {
    breaks(Broken::IgnoresWaiters, ONE_NAME, NOT_OVERTAKEN);
}

#[test]
fn a_waiter_must_look_after_it_has_registered() {
    breaks(Broken::SleepsAtOnce, ONE_NAME, PROMPT);
}

#[test]
fn a_wake_up_before_the_end_is_visible_is_lost() {
    breaks(Broken::WakesTooEarly, ONE_NAME, PROMPT);
}

#[test]
fn a_canceled_call_must_leave() {
    breaks(Broken::LeavesSlot, ONE_NAME, ONE_PLACE);
}

#[test]
fn a_dead_waiter_must_lose_its_name() {
    breaks(Broken::KeepsForever, DEATHS, BOUNDED);
}

#[test]
fn a_lost_wake_up_needs_a_poll() {
    breaks(Broken::NeverPolls, Waiting { deaths: 0, losses: 1, ticks: 6, ..DEATHS }, BOUNDED);
}

#[test]
fn free_names_must_not_be_kept() {
    breaks(Broken::KeepsFreeNames, Waiting { held: [true, false], ..TWO_NAMES }, FREE);
}
