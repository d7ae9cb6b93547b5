//! Rules of the order: for whom a name is kept, who precedes a call, and who is woken.

use super::name::QueuedName;
use super::queue::{Effects, Registration, WaiterSlot, WaitingQueue};
use super::waiter::{KEPT_US, Waiter, Wish};

/// The waiters that precede a call at a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Before {
    pub waiters: usize,
    /// Until when the name is kept for the first of them.
    pub kept_until: Option<i64>,
}

impl<const WAITERS: usize, const NAMES: usize, const CHAINS: usize> WaitingQueue<WAITERS, NAMES, CHAINS> {
    /// Keeps a free name for its first waiter, from now on or since it came free, and wakes it if that is new. Waiters for
    /// which it was kept long enough lose it.
    fn keep(&mut self, name: &QueuedName, now: i64, effects: &mut impl Effects) {
        while let Some(first) = self.first(name) {
            match self.wanted(first).free_since {
                0 => return self.offer_to(first, now, effects),
                since if now < since.saturating_add(KEPT_US) => return,
                _ => self.unregister(first, effects),
            };
        }
    }

    /// Offers a name that has come free, or that its first waiter gives up, to the one that is the first now, and wakes it
    /// in any case: it may be looking at an earlier state. The name is kept for it from now on, however long it was kept
    /// for it before somebody else took it.
    fn offer(&mut self, name: &QueuedName, now: i64, effects: &mut impl Effects) {
        if let Some(first) = self.first(name) {
            self.offer_to(first, now, effects);
        }
    }

    fn offer_to(&mut self, first: Registration, now: i64, effects: &mut impl Effects) {
        // 0 means that it is not free.
        self.wanted_mut(first).free_since = now.max(1);
        effects.wake(self.waiter(first.slot).process);
    }

    /// Returns the first waiter for a name, if it precedes a rank.
    fn first_before(&self, name: &QueuedName, rank: Option<(i64, u64)>) -> Option<Registration> {
        self.first(name).filter(|first| rank.is_none_or(|rank| self.rank(*first) < rank))
    }

    /// Returns how many waiters for a name precede a call, whether the name is free or not. `None` is a call that does not
    /// wait.
    pub fn count_before(&self, place: Option<WaiterSlot>, name: &QueuedName) -> usize {
        let rank = place.map(|WaiterSlot(slot)| self.waiter(slot).rank());
        self.from(self.first(name)).take_while(|other| rank.is_none_or(|rank| self.rank(*other) < rank)).count()
    }

    /// Returns for each of several names that a call has found free, which waiters precede it: of those that wait for the
    /// name, and for whom it is still kept. The call may take its batch if there are none for any of its names. `None` is
    /// a call that does not wait. It comes last.
    pub fn waiters_before(
        &mut self,
        place: Option<WaiterSlot>,
        free: &[QueuedName],
        now: i64,
        effects: &mut impl Effects,
    ) -> Vec<Before> {
        let rank = place.map(|WaiterSlot(slot)| self.waiter(slot).rank());
        let mut before = Vec::with_capacity(free.len());
        for name in free {
            if self.first_before(name, rank).is_some() {
                self.keep(name, now, effects);
            }
            let first = self.first_before(name, rank);
            let kept_until = first.map(|first| self.wanted(first).free_since.saturating_add(KEPT_US));
            before.push(Before { waiters: self.count_before(place, name), kept_until });
        }
        before
    }

    /// Registers a waiter for the names that it has found held or kept for others, in place of those before; for the
    /// first `NAMES` of them. Its last look began at `looked_at`. Returns whether one of the names is new: it may have
    /// come free since that look, so the waiter must look once more before it sleeps.
    pub fn wait_for(
        &mut self,
        WaiterSlot(slot): WaiterSlot,
        wishes: &[Wish],
        looked_at: i64,
        now: i64,
        effects: &mut impl Effects,
    ) -> bool {
        let wishes = &wishes[..wishes.len().min(NAMES)];
        for at in self.waiter(slot).positions() {
            let registration = Registration { slot, at };
            let name = self.wanted(registration).name;
            if wishes.iter().any(|wish| wish.name == name) {
                // The look has shown it held, unless it has come free since.
                let wanted = self.wanted_mut(registration);
                if wanted.free_since < looked_at {
                    wanted.free_since = 0;
                }
            } else {
                self.give_up(registration, now, effects);
            }
        }
        let mut has_new = false;
        for wish in wishes {
            if !self.waiter(slot).names().any(|registered| *registered == wish.name) {
                self.register(slot, wish, effects);
                has_new = true;
            }
        }
        has_new
    }

    /// Ends a registration. A name that was kept for this waiter is kept for the next one.
    fn give_up(&mut self, registration: Registration, now: i64, effects: &mut impl Effects) {
        let was = self.unregister(registration, effects);
        if was.free_since != 0 {
            self.offer(&was.name, now, effects);
        }
    }

    /// Lets a waiter leave. Names that it has not taken are kept for the next waiters.
    pub fn leave(
        &mut self,
        WaiterSlot(slot): WaiterSlot,
        is_taken: impl Fn(&QueuedName) -> bool,
        now: i64,
        effects: &mut impl Effects,
    ) {
        for at in self.waiter(slot).positions() {
            let registration = Registration { slot, at };
            match is_taken(&self.wanted(registration).name) {
                true => drop(self.unregister(registration, effects)),
                false => self.give_up(registration, now, effects),
            }
        }
        self.free(slot);
    }

    /// Handles the end of a lease, after it has become visible, for all names with this quick hash. The first waiter must
    /// look, and all those that can never have the name, now that it has an owner or has none.
    pub fn ended(&mut self, quick: u64, has_owner: bool, now: i64, effects: &mut impl Effects) {
        let mut next = self.firsts(quick).next();
        while let Some(first) = next {
            self.offer_to(first, now, effects);
            let others = self.from(Some(first)).skip(1);
            let refused = others.filter(|other| (self.wanted(*other).creates == 1) == has_owner);
            refused.for_each(|other| effects.wake(self.waiter(other.slot).process));
            next = self.firsts(quick).skip_while(|other| *other != first).nth(1);
        }
    }

    /// Wakes all waiters of a database, when it is not known which leases have ended.
    pub fn wake_all(&self, database: u32, effects: &mut impl Effects) {
        let of_database = self.in_use().filter(|(_, waiter)| waiter.database == database);
        of_database.for_each(|(_, waiter)| effects.wake(waiter.process));
    }

    /// Removes waiters whose process is gone.
    pub fn remove_gone(&mut self, is_there: impl Fn(u32) -> bool, now: i64, effects: &mut impl Effects) {
        let is_gone = |(_, waiter): &(usize, &Waiter<NAMES>)| !is_there(waiter.process);
        let gone: Vec<_> = self.in_use().filter(is_gone).map(|(slot, _)| slot).collect();
        gone.into_iter().for_each(|slot| self.leave(WaiterSlot(slot), |_| false, now, effects));
    }
}
