//! The queues, the places and the sessions.

use claims_model::places::{Chance, Demand, Places};
use claims_model::queue::{ServiceKey, Ticket};
use claims_model::turns::Turns;
use zerocopy::FromZeros;

use crate::{Broken, Full, Stays};

pub const SESSIONS: usize = 3;
pub const SERVICES: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
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
pub struct Session {
    pub stage: Stage,
    /// The number of saves that have ended, and of calls that this save has made.
    pub saves: usize,
    pub calls: u8,
    pub is_alive: bool,
    /// Whether it was woken since it last went to sleep.
    pub latch: bool,
    /// Connections in the cache, and those that a call has taken out.
    pub cached: [bool; SERVICES],
    pub taken: [bool; SERVICES],
    pub has_turn: [bool; SERVICES],
    /// Its first position in the order of arrival, and the one in which it waits for its turn now.
    pub tickets: [Option<Ticket>; SERVICES],
    pub turn_ticket: Ticket,
    pub place_ticket: Option<Ticket>,
    /// The service at which it waits, or has waited last.
    pub awaited: usize,
}

impl Session {
    pub fn waits_for_turn(&self, service: usize) -> bool {
        use Stage::{AwaitsResumption, AwaitsTakenTurn, AwaitsTurn};
        self.awaited == service && matches!(self.stage, AwaitsTurn(_) | AwaitsResumption(_) | AwaitsTakenTurn(_))
    }

    fn waits_for_place(&self, service: usize) -> bool {
        self.awaited == service && self.place_ticket.is_some()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    pub turns: Turns<SERVICES, SESSIONS>,
    pub places: Places<SERVICES, SESSIONS, 0>,
    pub free: [u8; SERVICES],
    pub sessions: [Session; SESSIONS],
    pub deaths: u8,
    pub cancels: u8,
    pub was_overtaken: bool,
    pub has_waited_for_place: bool,
}

pub fn key(service: usize) -> ServiceKey {
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
        !self.sessions[at].is_alive || self.sessions[at].saves == model.saves[at].len() || self.stays(at, model)
    }

    /// Returns whether a session has come to where it stays for ever.
    fn stays(&self, at: usize, model: &Full) -> bool {
        match model.stays[at] {
            Some(Stays::InTransaction) => self.sessions[at].stage == Stage::ToEnd,
            Some(Stays::ForLease) => matches!(self.sessions[at].stage, Stage::ToAnswer(_)),
            None => false,
        }
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
                && (0..SESSIONS).all(|at| !self.sessions[at].taken[service] || self.stays(at, model))
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

    /// Returns whether a connection is used by no call, and is wanted by others.
    pub fn can_be_asked(&self, at: usize, service: usize, model: &Full) -> bool {
        let session = &self.sessions[at];
        let is_between = session.stage == Stage::ToArrive(0);
        let waits = model.stays[at] == Some(Stays::ForLease) && self.stays(at, model) && session.taken[service];
        let is_unused = session.cached[service] && (is_between || session.stage == Stage::ToEnd) || waits;
        // Where all sessions end their transactions, they give their places up then: the model stays small.
        let is_asked = model.stays.iter().any(Option::is_some) && model.broken != Some(Broken::KeepsPlace);
        session.is_alive && is_unused && is_asked && self.demand(service) == Demand::Now
    }

    pub fn demand(&self, service: usize) -> Demand {
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

    pub fn chance(&self, at: usize) -> Chance {
        self.sessions[at].place_ticket.map_or(Chance::None, |ticket| self.places.chance(ticket))
    }

    /// Notes if a session is given a turn before one that waits for it and has arrived earlier.
    pub fn note_overtaken(&mut self, at: usize, service: usize) {
        let own = self.sessions[at].tickets[service];
        let is_before = |other: &Session| {
            other.is_alive && other.waits_for_turn(service) && !other.latch && other.tickets[service] < own
        };
        self.was_overtaken |= self.sessions.iter().any(is_before);
    }

    /// Notes if a session gets a place before one that has waited longer and has not been given one.
    pub fn note_place(&mut self, own: Option<Ticket>, service: usize) {
        let is_before = |other: &Session| {
            let ticket = other.place_ticket.filter(|ticket| own.is_none_or(|own| *ticket < own));
            other.waits_for_place(service) && ticket.is_some_and(|ticket| self.places.chance(ticket) != Chance::Good)
        };
        self.was_overtaken |= self.sessions.iter().any(is_before);
    }
}
