//! The state of the queue, the names and the calls, and what happens to them. [`crate::call`] has the steps of a call.

use claims_model::waiting::{Effects, KEPT_US, POLL_US, QueuedName, WaiterSlot, WaitingQueue};

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
    pub was_held: bool,
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
    /// Has seen who holds its names.
    ToDecide {
        holders: [HeldBy; NAMES],
        looked_at: i64,
    },
    /// Attempts its batches one after the other, from this one on.
    ToTry {
        batch: usize,
        found: Found,
    },
    /// Has asked whether it may take the names of a batch, and may.
    ToTake {
        batch: usize,
        found: Found,
    },
    Asleep {
        until: i64,
    },
    Done,
}

/// The conflicts that an attempt has met so far, and that it will return.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Found {
    Nothing,
    Temporary,
    Permanent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Client {
    pub stage: Stage,
    pub is_alive: bool,
    /// Whether the time for which it waits is over.
    pub is_over: bool,
    /// Whether it was woken since it last went to sleep.
    pub latch: bool,
    pub place: Option<WaiterSlot>,
    /// When it joined, and its number among those that did.
    pub joined: (i64, u8),
    /// The names for which it is registered, by its own knowledge.
    pub wants: [bool; NAMES],
    /// The number of ticks for which it slept although it could have taken its names.
    pub idle: i64,
    pub was_served: bool,
    pub has_waited: bool,
    /// Whether it did not get its names, and for good.
    pub refused: Option<Found>,
}

impl Client {
    pub fn was_refused(&self) -> bool {
        self.refused.is_some()
    }
}

/// The batches of a call, of which it takes the first one that it can have, and how it waits.
pub type Call = (&'static [&'static [usize]], Kind);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    pub now: i64,
    pub queue: WaitingQueue<CLIENTS, NAMES, 1>,
    pub names: [NameState; NAMES],
    pub clients: [Client; CLIENTS],
    pub calls: [Call; CLIENTS],
    pub joins: u8,
    pub deaths: u8,
    pub losses: u8,
    pub cancels: u8,
    pub deadlines: u8,
    pub commits: u8,
    pub was_overtaken: bool,
    pub was_kept_off: bool,
    /// Whether a call that waits was refused for good although a lease holds one of its batches.
    pub was_misled: bool,
}

/// The processes that were woken.
pub struct Woken<'c>(pub &'c mut [Client; CLIENTS]);

impl Effects for Woken<'_> {
    fn wake(&mut self, process: u32) {
        self.0[process as usize - 1].latch = true;
    }
}

pub fn name(number: usize) -> QueuedName {
    // Both names have one quick hash: such a collision only wakes without need.
    QueuedName { quick: 7, exact: [number as u64 + 1, 0] }
}

impl World {
    pub fn new(model: &Waiting) -> Self {
        let client = Client {
            stage: Stage::ToLook,
            is_alive: true,
            is_over: false,
            latch: false,
            place: None,
            joined: (0, 0),
            wants: [false; NAMES],
            idle: 0,
            was_served: false,
            has_waited: false,
            refused: None,
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
            deadlines: 0,
            commits: 0,
            was_overtaken: false,
            was_kept_off: false,
            was_misled: false,
        }
    }

    /// Returns whether a process has something to do.
    pub fn can_step(&self, client: usize) -> bool {
        let Client { stage, is_alive, is_over, latch, .. } = self.clients[client];
        is_alive
            && match stage {
                Stage::Done => false,
                Stage::Asleep { until } => latch || is_over || until <= self.now,
                _ => true,
            }
    }

    /// Returns whether time may pass: nobody who is alive has something to do.
    pub fn is_quiet(&self, model: &Waiting) -> bool {
        let must_step = |client: usize| {
            let Client { stage, latch, is_over, .. } = self.clients[client];
            let is_timer = matches!(stage, Stage::Asleep { .. }) && !latch && !is_over;
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

    /// Returns whether all names of one of a call's batches are free, and no live waiter precedes it.
    fn could_take(&self, client: usize) -> bool {
        self.calls[client].0.iter().any(|batch| {
            batch.iter().all(|name| self.names[*name].holder == HeldBy::Nobody)
                && !(0..CLIENTS).any(|other| self.precedes(other, client, batch))
        })
    }

    /// Returns whether a live waiter for one of the names comes before a call, by its priority and by when it joined.
    pub fn precedes(&self, other: usize, client: usize, batch: &[usize]) -> bool {
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

    /// Ends a call, which has taken these names.
    pub fn leave(&mut self, client: usize, taken: &[usize]) {
        self.clients[client].stage = Stage::Done;
        self.clients[client].wants = [false; NAMES];
        self.clients[client].joined = (0, 0);
        if let Some(place) = self.clients[client].place.take() {
            let is_taken = |left: &QueuedName| taken.iter().any(|number| name(*number) == *left);
            self.queue.leave(place, is_taken, self.now, &mut Woken(&mut self.clients));
        }
    }

    pub fn cancel(&mut self, client: usize, broken: Option<Broken>) {
        self.cancels += 1;
        if broken == Some(Broken::LeavesSlot) {
            self.clients[client].stage = Stage::Done;
            self.clients[client].place = None;
        } else {
            self.leave(client, &[]);
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
