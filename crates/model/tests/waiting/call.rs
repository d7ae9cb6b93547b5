//! The steps of a call: it looks at its names, decides, sleeps, and attempts its batches one after the other.

use claims_model::waiting::{Arrival, Before, KEPT_US, POLL_US, QueuedName, Wish};

use crate::state::{CLIENTS, Found, HeldBy, Kind, NAMES, Stage, Woken, World, name};
use crate::{Broken, Waiting};

impl World {
    pub fn step(&mut self, client: usize, model: &Waiting) {
        match self.clients[client].stage {
            Stage::Asleep { .. } | Stage::ToLook => {
                self.clients[client].latch = false;
                let holders = self.names.map(|name| name.holder);
                self.clients[client].stage = match self.calls[client].1 {
                    Kind::Waits(_) => Stage::ToDecide { holders, looked_at: self.now },
                    Kind::Once => Stage::ToTry { batch: 0, found: Found::Nothing },
                };
            }
            Stage::ToDecide { holders, looked_at } => self.decide(client, holders, looked_at, model.broken),
            Stage::ToTry { batch, found } => self.attempt(client, batch, found, model.broken),
            Stage::ToTake { batch, found } => self.take(client, batch, found, model.broken),
            Stage::Done => {}
        }
    }

    /// Sleeps, or begins an attempt: something may be free, nothing can become free, or the time is over.
    fn decide(&mut self, client: usize, holders: [HeldBy; NAMES], looked_at: i64, broken: Option<Broken>) {
        self.clients[client].stage = Stage::ToTry { batch: 0, found: Found::Nothing };
        self.join(client);
        let mut wanted = Vec::new();
        let mut kept_until = None;
        for batch in self.calls[client].0 {
            if batch.iter().any(|name| holders[*name] == HeldBy::Owner) {
                continue;
            }
            let (free, held): (Vec<usize>, Vec<usize>) =
                batch.iter().partition(|name| holders[**name] == HeldBy::Nobody);
            let before = self.before(client, &free, broken);
            kept_until = before.iter().filter_map(|(_, before)| before.kept_until).chain(kept_until).min();
            let queued: Vec<usize> = before.into_iter().map(|(name, _)| name).collect();
            // A name that no lease has ever held was never waited for.
            self.was_kept_off |= queued.iter().any(|name| !self.names[*name].was_held);
            if held.is_empty() && queued.is_empty() {
                return;
            }
            match broken {
                Some(Broken::KeepsFreeNames) => wanted.extend(*batch),
                _ => wanted.extend([held, queued].concat()),
            }
        }
        let Some(place) = self.clients[client].place else { return };
        if wanted.is_empty() || self.clients[client].is_over {
            return;
        }
        self.clients[client].has_waited = true;
        wanted.sort_unstable();
        wanted.dedup();
        let wishes: Vec<Wish> = wanted.iter().map(|number| Wish { name: name(*number), creates: true }).collect();
        let now = self.time(broken);
        let has_new = self.queue.wait_for(place, &wishes, looked_at, now, &mut Woken(&mut self.clients));
        self.clients[client].wants = std::array::from_fn(|name| wanted.contains(&name));
        let kept_until = kept_until.filter(|until| *until > self.now).unwrap_or(i64::MAX);
        self.clients[client].stage = match has_new && broken != Some(Broken::SleepsAtOnce) {
            true => Stage::ToLook,
            false => Stage::Asleep { until: (self.now + POLL_US).min(kept_until) },
        };
    }

    fn join(&mut self, client: usize) {
        let Kind::Waits(priority) = self.calls[client].1 else { return };
        if self.clients[client].place.is_none() {
            let arrival = Arrival { process: client as u32 + 1, database: 5, cell_id: 1, priority, now: self.now };
            self.clients[client].place = self.queue.join(arrival, 2 * CLIENTS);
            self.joins += 1;
            self.clients[client].joined = (self.now, self.joins);
        }
    }

    /// Returns the names for which others wait who come before a call.
    fn before(&mut self, client: usize, names: &[usize], broken: Option<Broken>) -> Vec<(usize, Before)> {
        let asked: Vec<QueuedName> = names.iter().map(|number| name(*number)).collect();
        let (place, now) = (self.clients[client].place, self.time(broken));
        let before = self.queue.waiters_before(place, &asked, now, &mut Woken(&mut self.clients));
        names.iter().copied().zip(before).filter(|(_, before)| before.waiters > 0).collect()
    }

    /// Returns the time. A name that came free is kept for ever where it stands still.
    fn time(&self, broken: Option<Broken>) -> i64 {
        if broken == Some(Broken::KeepsForever) { self.now.min(KEPT_US) } else { self.now }
    }

    /// Asks whether it is the call's turn at a batch, if there is another one.
    fn attempt(&mut self, client: usize, batch: usize, found: Found, broken: Option<Broken>) {
        let (batches, kind) = self.calls[client];
        let Some(names) = batches.get(batch) else { return self.answer(client, found) };
        let is_refused = names.iter().any(|name| self.names[*name].holder == HeldBy::Owner);
        if is_refused {
            return self.conflict(client, batch, found, Found::Permanent, broken);
        }
        let asks = match broken {
            Some(Broken::IgnoresWaiters) => kind != Kind::Once,
            Some(Broken::AsksOnce) => self.clients[client].place.is_none(),
            _ => true,
        };
        let before = if asks { self.before(client, names, broken) } else { Vec::new() };
        self.was_kept_off |= before.iter().any(|(name, _)| !self.names[*name].was_held);
        if !before.is_empty() {
            return self.conflict(client, batch, found, Found::Temporary, broken);
        }
        let is_free = names.iter().all(|name| self.names[*name].holder == HeldBy::Nobody);
        self.was_overtaken |= is_free && (0..CLIENTS).any(|other| self.precedes(other, client, names));
        self.clients[client].stage = Stage::ToTake { batch, found };
    }

    /// Takes a batch, if it is free.
    fn take(&mut self, client: usize, batch: usize, found: Found, broken: Option<Broken>) {
        let names = self.calls[client].0[batch];
        if !names.iter().all(|name| self.names[*name].holder == HeldBy::Nobody) {
            let is_refused = names.iter().any(|name| self.names[*name].holder == HeldBy::Owner);
            let now_found = if is_refused { Found::Permanent } else { Found::Temporary };
            return self.conflict(client, batch, found, now_found, broken);
        }
        for name in names {
            self.names[*name].holder = HeldBy::Lease;
            self.names[*name].was_held = true;
        }
        self.clients[client].was_served = self.clients[client].has_waited;
        self.leave(client, names);
    }

    /// Goes on with the next batch after a conflict. A temporary one is the answer, if there is one.
    fn conflict(&mut self, client: usize, batch: usize, found: Found, now: Found, broken: Option<Broken>) {
        let keeps = found == Found::Temporary && broken != Some(Broken::AnswersLast);
        let found = if keeps { found } else { now };
        self.clients[client].stage = Stage::ToTry { batch: batch + 1, found };
    }

    /// Answers with the conflicts, or waits on.
    fn answer(&mut self, client: usize, found: Found) {
        let (batches, kind) = self.calls[client];
        let waits = kind != Kind::Once;
        if waits && found == Found::Temporary && !self.clients[client].is_over {
            self.clients[client].stage = Stage::ToLook;
            return;
        }
        let is_taken = |batch: &&[usize]| batch.iter().any(|name| self.names[*name].holder == HeldBy::Owner);
        self.was_misled |= waits && found == Found::Permanent && !batches.iter().all(is_taken);
        self.clients[client].refused = Some(found);
        self.leave(client, &[]);
    }
}
