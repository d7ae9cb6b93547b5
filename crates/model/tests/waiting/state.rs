//! The state of the queue, the names and the calls, and the steps of a call.

use claims_model::waiting::{Arrival, Before, Effects, KEPT_US, Name, POLL_US, Place, Queue};

use crate::{Broken, Waiting};

pub const CLIENTS: usize = 3;
pub const NAMES: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HeldBy {
    Nobody,
    /// A lease that will end.
    Lease,
    /// A claim that stays.
    Owner,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NameState {
    pub holder: HeldBy,
    /// The number of ended leases whose sessions have not yet woken the waiters.
    pub wakes: u8,
    /// Whether they ended in a commit.
    is_for_good: bool,
    /// Whether a lease has ever held it.
    was_held: bool,
    /// Whether the session that is about to end the lease has woken the waiters already.
    woke_early: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Waits, with a priority.
    Waits(i32),
    /// Is refused if it cannot have its names at once.
    Once,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    ToLook,
    /// Has seen which of its names are free.
    ToDecide {
        free: [bool; NAMES],
        looked_at: i64,
    },
    ToTake,
    Asleep {
        until: i64,
    },
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Client {
    pub stage: Stage,
    pub is_alive: bool,
    /// Whether it was woken since it last went to sleep.
    latch: bool,
    place: Option<Place>,
    /// When it joined, and its number among those that did.
    joined: (i64, u8),
    /// The names for which it is registered, by its own knowledge.
    wants: [bool; NAMES],
    /// The number of ticks for which it slept although it could have taken its names.
    pub idle: i64,
    pub was_served: bool,
    has_waited: bool,
    is_refused: bool,
}

impl Client {
    pub fn was_refused(&self) -> bool {
        self.is_refused
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    pub now: i64,
    queue: Queue<CLIENTS, NAMES>,
    pub names: [NameState; NAMES],
    pub clients: [Client; CLIENTS],
    calls: [(&'static [usize], Kind); CLIENTS],
    joins: u8,
    pub deaths: u8,
    pub losses: u8,
    pub cancels: u8,
    pub commits: u8,
    pub was_overtaken: bool,
    pub was_kept_off: bool,
}

/// The processes that were woken.
struct Woken<'c>(&'c mut [Client; CLIENTS]);

impl Effects for Woken<'_> {
    fn wake(&mut self, process: u32) {
        self.0[process as usize - 1].latch = true;
    }
}

fn name(number: usize) -> Name {
    // Both names have one quick hash: such a collision only wakes without need.
    Name { quick: 7, exact: [number as u64 + 1, 0] }
}

impl World {
    pub fn new(model: &Waiting) -> Self {
        let client = Client {
            stage: Stage::ToLook,
            is_alive: true,
            latch: false,
            place: None,
            joined: (0, 0),
            wants: [false; NAMES],
            idle: 0,
            was_served: false,
            has_waited: false,
            is_refused: false,
        };
        let name = |is_held| NameState {
            holder: if is_held { HeldBy::Lease } else { HeldBy::Nobody },
            wakes: 0,
            is_for_good: false,
            was_held: is_held,
            woke_early: false,
        };
        World {
            now: POLL_US,
            queue: zerocopy::FromZeros::new_zeroed(),
            names: model.held.map(name),
            clients: [client; CLIENTS],
            calls: model.calls,
            joins: 0,
            deaths: 0,
            losses: 0,
            cancels: 0,
            commits: 0,
            was_overtaken: false,
            was_kept_off: false,
        }
    }

    /// Returns whether a process has something to do.
    pub fn can_step(&self, client: usize) -> bool {
        let Client { stage, is_alive, latch, .. } = self.clients[client];
        is_alive
            && match stage {
                Stage::Done => false,
                Stage::Asleep { until } => latch || until <= self.now,
                _ => true,
            }
    }

    /// Returns whether time may pass: nobody who is alive has something to do.
    pub fn is_quiet(&self, model: &Waiting) -> bool {
        let must_step = |client: usize| {
            let is_timer = matches!(self.clients[client].stage, Stage::Asleep { .. }) && !self.clients[client].latch;
            self.can_step(client) && !(is_timer && model.broken == Some(Broken::NeverPolls))
        };
        // A call that has not begun may begin at any time.
        let has_begun = |client: usize| {
            !model.is_late || self.clients[client].stage != Stage::ToLook || self.clients[client].has_waited
        };
        !(0..CLIENTS).any(|client| has_begun(client) && must_step(client))
            && self.names.iter().all(|name| name.wakes == 0)
    }

    pub fn tick(&mut self) {
        for client in 0..CLIENTS {
            let sleeps = matches!(self.clients[client].stage, Stage::Asleep { .. });
            let is_idle = self.clients[client].is_alive && sleeps && self.could_take(client);
            self.clients[client].idle = if is_idle { self.clients[client].idle + 1 } else { 0 };
        }
        self.now += POLL_US;
    }

    /// Returns whether all names of a call are free, and no live waiter precedes it.
    fn could_take(&self, client: usize) -> bool {
        let (batch, _) = self.calls[client];
        batch.iter().all(|name| self.names[*name].holder == HeldBy::Nobody)
            && !(0..CLIENTS).any(|other| self.precedes(other, client, batch))
    }

    /// Returns whether a live waiter for one of the names comes before a call, by its priority and by when it joined.
    fn precedes(&self, other: usize, client: usize, batch: &[usize]) -> bool {
        let rank = |number: usize| {
            let (at, join) = self.clients[number].joined;
            let priority = match self.calls[number].1 {
                Kind::Waits(priority) => i64::from(priority) * 1_000_000,
                Kind::Once => 0,
            };
            self.clients[number].place.map(|_| (at - priority, join))
        };
        let is_first = match (rank(other), rank(client)) {
            (Some(other), Some(client)) => other < client,
            (Some(_), None) => true,
            (None, _) => false,
        };
        other != client
            && self.clients[other].is_alive
            && is_first
            && batch.iter().any(|name| self.clients[other].wants[*name])
    }

    pub fn step(&mut self, client: usize, model: &Waiting) {
        let (batch, kind) = self.calls[client];
        match self.clients[client].stage {
            Stage::Asleep { .. } | Stage::ToLook => {
                self.clients[client].latch = false;
                if batch.iter().any(|name| self.names[*name].holder == HeldBy::Owner) {
                    self.clients[client].is_refused = kind == Kind::Once;
                    return self.leave(client, false);
                }
                let free = self.names.map(|name| name.holder == HeldBy::Nobody);
                self.clients[client].stage = Stage::ToDecide { free, looked_at: self.now };
            }
            Stage::ToDecide { free, looked_at } => self.decide(client, free, looked_at, model.broken),
            Stage::ToTake => {
                if batch.iter().all(|name| self.names[*name].holder == HeldBy::Nobody) {
                    for name in batch {
                        self.names[*name].holder = HeldBy::Lease;
                        self.names[*name].was_held = true;
                    }
                    self.clients[client].was_served = self.clients[client].has_waited;
                    self.leave(client, true);
                } else {
                    self.clients[client].stage = Stage::ToLook;
                }
            }
            Stage::Done => {}
        }
    }

    fn decide(&mut self, client: usize, free: [bool; NAMES], looked_at: i64, broken: Option<Broken>) {
        let (batch, kind) = self.calls[client];
        let (free_names, held): (Vec<usize>, Vec<usize>) = batch.iter().partition(|name| free[**name]);
        let mut place = self.clients[client].place;
        if let (None, Kind::Waits(priority)) = (place, kind) {
            let arrival = Arrival { process: client as u32 + 1, database: 5, cell_id: 1, priority, now: self.now };
            place = self.queue.join(arrival, CLIENTS);
            self.joins += 1;
            self.clients[client].joined = (self.now, self.joins);
            self.clients[client].place = place;
        }
        let now = if broken == Some(Broken::KeepsForever) { POLL_US } else { self.now };
        let asked: Vec<Name> = free_names.iter().map(|number| name(*number)).collect();
        let before = self.queue.waiters_before(place, &asked, now, &mut Woken(&mut self.clients));
        let before = match broken {
            Some(Broken::IgnoresWaiters) if kind == Kind::Once => {
                vec![Before { waiters: 0, kept_until: None }; asked.len()]
            }
            _ => before,
        };
        let queued: Vec<usize> =
            free_names.iter().zip(&before).filter(|(_, before)| before.waiters > 0).map(|(name, _)| *name).collect();
        // A name that no lease has ever held was never waited for.
        self.was_kept_off |= queued.iter().any(|name| !self.names[*name].was_held);
        if held.is_empty() && queued.is_empty() {
            self.was_overtaken |= (0..CLIENTS).any(|other| self.precedes(other, client, batch));
            self.clients[client].stage = Stage::ToTake;
            return;
        }
        let Some(place) = place else {
            self.clients[client].stage = Stage::Done;
            self.clients[client].is_refused = true;
            return;
        };
        self.clients[client].has_waited = true;
        let mut wanted = [held, queued].concat();
        if broken == Some(Broken::KeepsFreeNames) {
            wanted = batch.to_vec();
        }
        let names: Vec<Name> = wanted.iter().map(|number| name(*number)).collect();
        let has_new = self.queue.wait_for(place, &names, looked_at, now, &mut Woken(&mut self.clients));
        self.clients[client].wants = std::array::from_fn(|name| wanted.contains(&name));
        let kept_until = before.iter().filter_map(|before| before.kept_until).filter(|until| *until > self.now).min();
        self.clients[client].stage = match has_new && broken != Some(Broken::SleepsAtOnce) {
            true => Stage::ToLook,
            false => Stage::Asleep { until: (self.now + POLL_US).min(kept_until.unwrap_or(i64::MAX)) },
        };
    }

    fn leave(&mut self, client: usize, has_taken: bool) {
        let batch = self.calls[client].0;
        self.clients[client].stage = Stage::Done;
        self.clients[client].wants = [false; NAMES];
        self.clients[client].joined = (0, 0);
        if let Some(place) = self.clients[client].place.take() {
            let is_taken = |left: &Name| has_taken && batch.iter().any(|number| name(*number) == *left);
            self.queue.leave(place, is_taken, self.now, &mut Woken(&mut self.clients));
        }
    }

    pub fn cancel(&mut self, client: usize, broken: Option<Broken>) {
        self.cancels += 1;
        if broken == Some(Broken::LeavesSlot) {
            self.clients[client].stage = Stage::Done;
            self.clients[client].place = None;
        } else {
            self.leave(client, false);
        }
    }

    pub fn end(&mut self, name: usize, is_for_good: bool, broken: Option<Broken>) {
        if broken == Some(Broken::WakesTooEarly) && !self.names[name].woke_early {
            // The first step only wakes, and the lease ends with the second one.
            self.names[name].woke_early = true;
            self.names[name].wakes += 1;
            return;
        }
        self.names[name].woke_early = false;
        self.names[name].holder = if is_for_good { HeldBy::Owner } else { HeldBy::Nobody };
        self.names[name].is_for_good = is_for_good;
        self.commits += u8::from(is_for_good);
        if broken != Some(Broken::WakesTooEarly) {
            self.names[name].wakes += 1;
        }
    }

    pub fn wake(&mut self, number: usize) {
        self.names[number].wakes -= 1;
        let is_for_good = self.names[number].is_for_good;
        self.queue.ended(name(number).quick, is_for_good, self.now, &mut Woken(&mut self.clients));
    }

    /// Returns whether the slots of the queue are those of the waiting calls, each once.
    pub fn has_one_place_each(&self) -> bool {
        let places: Vec<_> =
            (0..CLIENTS).filter_map(|client| Some((client as u32 + 1, self.clients[client].place?))).collect();
        places.len() == self.queue.len() && places.iter().all(|(process, place)| self.queue.is_of(*place, *process))
    }
}

const _: () = assert!(KEPT_US % POLL_US == 0, "ticks must meet the end of a keep");
