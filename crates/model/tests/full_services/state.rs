//! The queues, the places and the sessions, and the steps of a session.

use claims_model::places::{Chance, Demand, Places};
use claims_model::turns::{Arrival, ServiceKey, Ticket, Turns};
use zerocopy::FromZeros;

use crate::{Broken, Full};

pub const SESSIONS: usize = 3;
pub const SERVICES: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    /// Arrives to take a turn at the service at a position of the save, to connect there.
    ToArrive(usize),
    /// Sleeps until it is its turn.
    AwaitsTurn(usize),
    ToConnect(usize),
    /// Waits for a place. It sleeps, or tries.
    AwaitsPlace(usize, bool),
    /// Has a connection, and wants its turn again.
    ToResume(usize),
    AwaitsResumption(usize),
    /// Has connections to all services of the save, without a turn if there are several. Takes the turns.
    ToTakeTurn(usize),
    AwaitsTakenTurn(usize),
    /// All calls were sent. Reads an answer.
    ToAnswer(usize),
    ToEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Session {
    stage: Stage,
    /// The number of saves that have ended, and of calls that this save has made.
    saves: usize,
    calls: u8,
    is_alive: bool,
    /// Whether it was woken since it last went to sleep.
    latch: bool,
    /// Connections in the cache, and those that a call has taken out.
    cached: [bool; SERVICES],
    taken: [bool; SERVICES],
    has_turn: [bool; SERVICES],
    /// Its first position in the order of arrival, and the one in which it waits for its turn now.
    tickets: [Option<Ticket>; SERVICES],
    turn_ticket: Ticket,
    place_ticket: Option<Ticket>,
    /// The service at which it waits, or has waited last.
    awaited: usize,
}

impl Session {
    fn waits_for_turn(&self, service: usize) -> bool {
        use Stage::{AwaitsResumption, AwaitsTakenTurn, AwaitsTurn};
        self.awaited == service && matches!(self.stage, AwaitsTurn(_) | AwaitsResumption(_) | AwaitsTakenTurn(_))
    }

    fn waits_for_place(&self, service: usize) -> bool {
        self.awaited == service && self.place_ticket.is_some()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    turns: Turns<SERVICES, SESSIONS>,
    places: Places<SERVICES, SESSIONS>,
    free: [u8; SERVICES],
    sessions: [Session; SESSIONS],
    pub deaths: u8,
    pub cancels: u8,
    pub was_overtaken: bool,
    pub has_waited_for_place: bool,
}

fn key(service: usize) -> ServiceKey {
    service as ServiceKey + 1
}

impl World {
    pub fn new(model: &Full) -> World {
        let session = Session {
            stage: Stage::ToArrive(0),
            saves: 0,
            calls: 0,
            is_alive: true,
            latch: false,
            cached: [false; SERVICES],
            taken: [false; SERVICES],
            has_turn: [false; SERVICES],
            tickets: [None; SERVICES],
            turn_ticket: 0,
            place_ticket: None,
            awaited: 0,
        };
        World {
            turns: Turns::new_zeroed(),
            places: Places::new_zeroed(),
            free: model.places,
            sessions: [session; SESSIONS],
            deaths: 0,
            cancels: 0,
            was_overtaken: false,
            has_waited_for_place: false,
        }
    }

    fn has_saved(&self, at: usize, model: &Full) -> bool {
        !self.sessions[at].is_alive || self.sessions[at].saves == model.saves[at].len()
    }

    pub fn is_done(&self, model: &Full) -> bool {
        (0..SESSIONS).all(|at| self.has_saved(at, model))
    }

    /// Returns whether nobody waits and no call is made, and all places are free but those of cached connections.
    pub fn is_nothing_left(&self, model: &Full) -> bool {
        (0..SERVICES).all(|service| {
            let kept = self.sessions.iter().filter(|session| session.cached[service] || session.taken[service]).count();
            self.turns.load(key(service)) == (0, 0)
                && self.places.waiting(key(service)) == 0
                && usize::from(self.free[service]) + kept == usize::from(model.places[service])
                && self.sessions.iter().all(|session| !session.taken[service])
        })
    }

    /// Returns the largest number of calls that are made at a service.
    pub fn most_calls(&self) -> u32 {
        let calls = |service: usize| self.sessions.iter().filter(|session| session.has_turn[service]).count();
        (0..SERVICES).map(calls).max().unwrap_or(0) as u32
    }

    pub fn is_in_save(&self, at: usize, model: &Full) -> bool {
        !self.has_saved(at, model)
    }

    pub fn is_at_end(&self, at: usize) -> bool {
        self.sessions[at].is_alive && self.sessions[at].stage == Stage::ToEnd
    }

    /// Returns whether a session makes no save, and a connection of it is wanted by others.
    pub fn is_idle(&self, at: usize, service: usize) -> bool {
        let session = &self.sessions[at];
        let is_between = session.stage == Stage::ToArrive(0) && session.calls == 0;
        session.is_alive && is_between && session.cached[service] && self.demand(service) == Demand::Now
    }

    fn demand(&self, service: usize) -> Demand {
        self.places.demand(key(service), 0)
    }

    /// Returns whether a session has something to do. A place that is not there is no reason to try, but for one with a good chance,
    /// which learns something.
    pub fn can_step(&self, at: usize, model: &Full) -> bool {
        let session = &self.sessions[at];
        if self.has_saved(at, model) {
            return false;
        }
        match session.stage {
            Stage::AwaitsTurn(_) | Stage::AwaitsResumption(_) | Stage::AwaitsTakenTurn(_) => session.latch,
            Stage::AwaitsPlace(_, false) => session.latch,
            Stage::AwaitsPlace(_, true) => {
                session.latch || self.free[session.awaited] > 0 || self.chance(at) == Chance::Good
            }
            Stage::ToEnd => false,
            _ => true,
        }
    }

    fn chance(&self, at: usize) -> Chance {
        self.sessions[at].place_ticket.map_or(Chance::None, |ticket| self.places.chance(ticket))
    }

    fn wake(&mut self, process: u32) {
        self.sessions[process as usize].latch = true;
    }

    fn pass_turns_on(&mut self, service: usize, limit: u32) {
        while let Some(process) = self.turns.next_turn(key(service), limit) {
            self.note_overtaken(process as usize, service);
            self.wake(process);
        }
    }

    fn end_turn(&mut self, at: usize, service: usize, model: &Full) {
        if std::mem::take(&mut self.sessions[at].has_turn[service]) {
            self.turns.end(key(service));
            self.pass_turns_on(service, model.limit);
        }
    }

    /// Closes a connection, and gives its place to the first of those that wait.
    fn close(&mut self, at: usize, service: usize) {
        let session = &mut self.sessions[at];
        session.cached[service] = false;
        session.taken[service] = false;
        self.free[service] += 1;
        if let Some(process) = self.places.give(key(service)) {
            self.wake(process);
        }
    }

    /// Ends the waiting for a place.
    fn leave(&mut self, at: usize, is_connected: bool, model: &Full) {
        let Some(ticket) = self.sessions[at].place_ticket.take() else { return };
        let to_wake = self.places.leave(ticket, is_connected);
        if model.broken != Some(Broken::WakesNobody) {
            to_wake.into_iter().flatten().for_each(|process| self.wake(process));
        }
    }

    /// Arrives to take a turn. Returns whether it has it already.
    fn arrive(&mut self, at: usize, service: usize, model: &Full) -> bool {
        let session = &mut self.sessions[at];
        if session.has_turn[service] {
            return true;
        }
        let first = session.tickets[service].filter(|_| model.broken != Some(Broken::ResumesLast));
        match self.turns.arrive(key(service), model.limit, at as u32, first) {
            Arrival::Now(ticket) => {
                self.sessions[at].tickets[service].get_or_insert(ticket);
                self.note_overtaken(at, service);
                self.sessions[at].has_turn[service] = true;
                true
            }
            Arrival::Wait(ticket) => {
                let session = &mut self.sessions[at];
                session.tickets[service].get_or_insert(ticket);
                (session.turn_ticket, session.awaited, session.latch) = (ticket, service, false);
                false
            }
            other => panic!("{other:?}"),
        }
    }

    /// Takes the turn for which the session was woken. Returns whether it has it.
    fn take(&mut self, at: usize, service: usize) -> bool {
        let session = &mut self.sessions[at];
        session.latch = false;
        if !self.turns.take(session.turn_ticket) {
            return false;
        }
        self.sessions[at].has_turn[service] = true;
        true
    }

    /// Notes if a session is given a turn before one that waits for it and has arrived earlier.
    fn note_overtaken(&mut self, at: usize, service: usize) {
        let own = self.sessions[at].tickets[service];
        let is_before = |other: &Session| {
            other.is_alive && other.waits_for_turn(service) && !other.latch && other.tickets[service] < own
        };
        self.was_overtaken |= self.sessions.iter().any(is_before);
    }

    /// Notes if a session gets a place before one that has waited longer and has not been given one.
    fn note_place(&mut self, own: Option<Ticket>, service: usize) {
        let is_before = |other: &Session| {
            let ticket = other.place_ticket.filter(|ticket| own.is_none_or(|own| *ticket < own));
            other.waits_for_place(service) && ticket.is_some_and(|ticket| self.places.chance(ticket) != Chance::Good)
        };
        self.was_overtaken |= self.sessions.iter().any(is_before);
    }

    pub fn step(&mut self, at: usize, model: &Full) {
        let session = self.sessions[at];
        let services = model.saves[at][session.saves];
        let set = |world: &mut World, stage| world.sessions[at].stage = stage;
        match session.stage {
            Stage::ToArrive(position) => {
                self.sessions[at].tickets[services[position]] = None;
                let comes = self.arrive(at, services[position], model);
                set(self, if comes { Stage::ToConnect(position) } else { Stage::AwaitsTurn(position) });
            }
            Stage::AwaitsTurn(position) => {
                if self.take(at, services[position]) {
                    set(self, Stage::ToConnect(position));
                }
            }
            Stage::ToConnect(position) => self.connect(at, position, services, model),
            Stage::AwaitsPlace(position, _) => self.try_place(at, position, services, model),
            Stage::ToResume(position) => {
                if self.arrive(at, services[position], model) {
                    self.connected(at, position, services, model);
                } else {
                    set(self, Stage::AwaitsResumption(position));
                }
            }
            Stage::AwaitsResumption(position) => {
                if self.take(at, services[position]) {
                    self.connected(at, position, services, model);
                }
            }
            Stage::ToTakeTurn(position) => {
                let comes = self.arrive(at, services[position], model);
                set(self, if comes { after_turn(position, services) } else { Stage::AwaitsTakenTurn(position) });
            }
            Stage::AwaitsTakenTurn(position) => {
                if self.take(at, services[position]) {
                    set(self, after_turn(position, services));
                }
            }
            Stage::ToAnswer(position) => {
                let service = services[position];
                self.sessions[at].taken[service] = false;
                self.sessions[at].cached[service] = true;
                self.end_turn(at, service, model);
                let is_last = position + 1 == services.len();
                if is_last {
                    self.sessions[at].calls += 1;
                }
                let has_called = self.sessions[at].calls == model.calls;
                set(
                    self,
                    match (is_last, has_called) {
                        (false, _) => Stage::ToAnswer(position + 1),
                        (true, false) => Stage::ToArrive(0),
                        (true, true) => Stage::ToEnd,
                    },
                );
            }
            Stage::ToEnd => {}
        }
    }

    fn connect(&mut self, at: usize, position: usize, services: &[usize], model: &Full) {
        let service = services[position];
        if std::mem::take(&mut self.sessions[at].cached[service]) {
            self.sessions[at].taken[service] = true;
            self.connected(at, position, services, model);
            return;
        }
        let is_awaited = self.places.waiting(key(service)) > 0 && model.broken != Some(Broken::Overtakes);
        if !is_awaited && self.free[service] > 0 {
            self.note_place(None, service);
            self.free[service] -= 1;
            self.sessions[at].taken[service] = true;
            self.connected(at, position, services, model);
            return;
        }
        match model.broken {
            Some(Broken::KeepsTurn) => {}
            Some(Broken::PausesSilently) => {
                self.sessions[at].has_turn[service] = false;
                self.turns.end(key(service));
            }
            _ => self.end_turn(at, service, model),
        }
        if model.broken != Some(Broken::KeepsConnections) {
            let above = (service + 1..SERVICES).filter(|above| self.sessions[at].cached[*above]);
            above.collect::<Vec<_>>().into_iter().for_each(|above| self.close(at, above));
        }
        let session = &mut self.sessions[at];
        (session.awaited, session.latch) = (service, false);
        self.sessions[at].place_ticket = self.places.arrive(key(service), at as u32);
        self.sessions[at].stage = Stage::AwaitsPlace(position, self.chance(at) != Chance::None);
        self.has_waited_for_place = true;
    }

    fn try_place(&mut self, at: usize, position: usize, services: &[usize], model: &Full) {
        let service = services[position];
        self.sessions[at].latch = false;
        let chance = self.chance(at);
        let tries = chance != Chance::None;
        self.sessions[at].stage = Stage::AwaitsPlace(position, tries);
        if !tries {
            return;
        }
        if self.free[service] > 0 {
            self.note_place(self.sessions[at].place_ticket, service);
            self.free[service] -= 1;
            self.sessions[at].taken[service] = true;
            self.leave(at, true, model);
            self.sessions[at].stage = Stage::ToResume(position);
        } else if let Some(ticket) = self.sessions[at].place_ticket.filter(|_| chance == Chance::Good) {
            self.places.lost(ticket);
        }
    }

    /// The session has a connection and a turn for a service of its save.
    fn connected(&mut self, at: usize, position: usize, services: &[usize], model: &Full) {
        if services.len() > 1 && model.broken != Some(Broken::KeepsTurnAtOther) {
            self.end_turn(at, services[position], model);
        }
        let is_last = position + 1 == services.len();
        self.sessions[at].stage = if is_last { Stage::ToTakeTurn(0) } else { Stage::ToArrive(position + 1) };
    }

    /// Ends a transaction. The session closes the connections whose places others wait for, or still keeps them for a while.
    pub fn end(&mut self, at: usize, gives: bool) {
        for service in 0..SERVICES {
            if gives && self.sessions[at].cached[service] && self.demand(service) == Demand::Now {
                self.close(at, service);
            }
        }
        let session = &mut self.sessions[at];
        session.saves += 1;
        session.calls = 0;
        session.stage = Stage::ToArrive(0);
    }

    pub fn close_idle(&mut self, at: usize, service: usize) {
        self.sessions[at].cached[service] = false;
        self.free[service] += 1;
    }

    /// Ends all that a session waits for, and closes connections that were taken out of the cache.
    fn abandon(&mut self, at: usize, model: &Full) {
        self.leave(at, false, model);
        for service in 0..SERVICES {
            if self.sessions[at].waits_for_turn(service) {
                self.turns.give_up(self.sessions[at].turn_ticket);
                self.pass_turns_on(service, model.limit);
            }
            if self.sessions[at].taken[service] {
                self.close(at, service);
            }
            self.end_turn(at, service, model);
        }
    }

    pub fn die(&mut self, at: usize, model: &Full) {
        self.deaths += 1;
        self.abandon(at, model);
        for service in 0..SERVICES {
            if self.sessions[at].cached[service] {
                self.close(at, service);
            }
        }
        self.sessions[at].is_alive = false;
    }

    pub fn cancel(&mut self, at: usize, model: &Full) {
        self.cancels += 1;
        self.abandon(at, model);
        self.sessions[at].stage = Stage::ToEnd;
    }
}

/// Returns the stage after a session has taken the turn at one of the services of its save.
fn after_turn(position: usize, services: &[usize]) -> Stage {
    if position + 1 == services.len() { Stage::ToAnswer(0) } else { Stage::ToTakeTurn(position + 1) }
}
