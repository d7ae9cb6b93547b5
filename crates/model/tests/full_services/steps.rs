//! The steps of a session.

use claims_model::places::{Chance, Demand};
use claims_model::turns::TurnArrival;

use super::state::{SERVICES, Stage, World, key};
use crate::{Broken, Full, Stays};

impl World {
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
            TurnArrival::Now(ticket) => {
                self.sessions[at].tickets[service].get_or_insert(ticket);
                self.note_overtaken(at, service);
                self.sessions[at].has_turn[service] = true;
                true
            }
            TurnArrival::Wait(ticket) => {
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

    pub fn step(&mut self, at: usize, model: &Full) {
        self.take_step(at, model);
        let waits = model.stays[at] == Some(Stays::ForLease) && matches!(self.sessions[at].stage, Stage::ToAnswer(_));
        if waits && model.broken != Some(Broken::WaitsWithTurn) {
            (0..SERVICES).for_each(|service| self.end_turn(at, service, model));
        }
    }

    fn take_step(&mut self, at: usize, model: &Full) {
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

    /// Closes a connection for which a waiting session has asked. That session is given its place.
    pub fn hand_over(&mut self, at: usize, service: usize) {
        self.close(at, service);
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
