//! The waiters of a server in slots, and their registrations in chains, so that a search for the waiters of one name does not read the
//! waiters of all others.
//!
//! A chain has the names whose quick hashes lead to it, each by its first waiter. Each name has its waiters in their order. So the end
//! of a lease finds the first waiter of a name without a search, however many wait for it.

use std::iter::successors;

use zerocopy::FromBytes;

use super::name::QueuedName;
use super::waiter::{Arrival, ChainLink, Waiter, Wanted, Wish};

/// Effects of a change of the queue outside of it. Called under the lock of the queue.
pub trait Effects {
    /// Wakes a waiting process.
    fn wake(&mut self, process: u32);
    /// A waiter was registered for a name.
    fn registered(&mut self, _quick: u64) {}
    /// A waiter is no longer registered for a name.
    fn unregistered(&mut self, _quick: u64) {}
}

/// The slot of a waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WaiterSlot(pub usize);

/// A registration of a waiter for a name: its slot, and the position among its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Registration {
    pub slot: usize,
    pub at: usize,
}

/// The waiters of a server: at most `WAITERS`, each registered for at most `NAMES` names, in `CHAINS` chains. A queue of
/// zeros is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, FromBytes)]
pub struct WaitingQueue<const WAITERS: usize, const NAMES: usize, const CHAINS: usize> {
    last_ticket: u64,
    /// The number of waiters.
    waiting: u64,
    /// No slot from this one on was ever in use.
    end: u64,
    /// The number of the first slot that is free again, plus one; 0 is none.
    first_free: u64,
    /// The first waiter for the first name of each chain.
    chains: [u64; CHAINS],
    slots: [Waiter<NAMES>; WAITERS],
}

impl<const WAITERS: usize, const NAMES: usize, const CHAINS: usize> WaitingQueue<WAITERS, NAMES, CHAINS> {
    pub fn len(&self) -> usize {
        usize::try_from(self.waiting).unwrap_or(WAITERS)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether a slot belongs to a process.
    pub fn is_of(&self, WaiterSlot(slot): WaiterSlot, process: u32) -> bool {
        self.slots.get(slot).is_some_and(|waiter| waiter.process == process && process != 0)
    }

    /// Returns the slots in use.
    pub(super) fn in_use(&self) -> impl Iterator<Item = (usize, &Waiter<NAMES>)> {
        let end = usize::try_from(self.end).unwrap_or(WAITERS).min(WAITERS);
        self.slots[..end].iter().enumerate().filter(|(_, waiter)| waiter.process != 0)
    }

    /// Lets a call wait, registered for no name yet. Returns `None` if `most` calls wait, or half as many of its cell, or if all slots are
    /// taken.
    pub fn join(&mut self, arrival: Arrival, most: usize) -> Option<WaiterSlot> {
        let is_of_cell =
            |waiter: &Waiter<NAMES>| (waiter.database, waiter.cell_id) == (arrival.database, arrival.cell_id);
        let of_cell = self.in_use().filter(|(_, waiter)| is_of_cell(waiter)).count();
        if self.len() >= most || of_cell >= most.div_ceil(2) {
            return None;
        }
        let slot = self.free_slot()?;
        let Arrival { process, database, cell_id, priority, now } = arrival;
        self.last_ticket += 1;
        self.waiting += 1;
        let waiter = &mut self.slots[slot];
        (waiter.process, waiter.database, waiter.cell_id) = (process, database, cell_id);
        (waiter.since, waiter.priority, waiter.ticket) = (now, priority, self.last_ticket);
        Some(WaiterSlot(slot))
    }

    fn free_slot(&mut self) -> Option<usize> {
        let Some(free) = self.first_free.checked_sub(1) else {
            let new = usize::try_from(self.end).ok().filter(|end| *end < WAITERS)?;
            self.end += 1;
            return Some(new);
        };
        let slot = usize::try_from(free).ok().filter(|slot| *slot < WAITERS)?;
        self.first_free = std::mem::take(&mut self.slots[slot].next_free).into();
        Some(slot)
    }

    /// Frees the slot of a waiter that is registered for nothing.
    pub(super) fn free(&mut self, slot: usize) {
        let waiter = &mut self.slots[slot];
        (waiter.process, waiter.database, waiter.cell_id) = (0, 0, 0);
        (waiter.since, waiter.priority, waiter.ticket) = (0, 0, 0);
        waiter.next_free = self.first_free as u32;
        self.first_free = slot as u64 + 1;
        self.waiting -= 1;
    }

    pub(super) fn waiter(&self, slot: usize) -> &Waiter<NAMES> {
        &self.slots[slot]
    }

    pub(super) fn wanted(&self, Registration { slot, at }: Registration) -> &Wanted {
        &self.slots[slot].wanted[at]
    }

    pub(super) fn wanted_mut(&mut self, Registration { slot, at }: Registration) -> &mut Wanted {
        &mut self.slots[slot].wanted[at]
    }

    pub(super) fn rank(&self, registration: Registration) -> (i64, u64) {
        self.slots[registration.slot].rank()
    }

    /// Returns the first waiter for each name with a quick hash.
    pub(super) fn firsts(&self, quick: u64) -> impl Iterator<Item = Registration> {
        self.chain(quick).filter(move |first| self.wanted(*first).name.quick == quick)
    }

    /// Returns the first waiter for a name.
    pub(super) fn first(&self, name: &QueuedName) -> Option<Registration> {
        self.chain(name.quick).find(|first| self.wanted(*first).name == *name)
    }

    /// Returns a waiter for a name, and those that follow it.
    pub(super) fn from(&self, waiter: Option<Registration>) -> impl Iterator<Item = Registration> {
        successors(waiter, |waiter| Self::linked(self.wanted(*waiter).next_waiter))
    }

    /// Registers a waiter for a name, if it has room for one.
    pub(super) fn register(&mut self, slot: usize, wish: &Wish, effects: &mut impl Effects) {
        let Wish { name, creates } = wish;
        let Some(at) = self.slots[slot].free_position() else { return };
        let new = Registration { slot, at };
        let first = self.first(name);
        let rank = self.rank(new);
        let precedes = self.from(first).take_while(|other| self.rank(*other) < rank).last();
        let (next_waiter, next_name) = match (precedes, first) {
            (Some(precedes), _) => (std::mem::replace(&mut self.wanted_mut(precedes).next_waiter, Self::link(new)), 0),
            (None, Some(first)) => {
                self.replace_first(first, Self::link(new));
                (Self::link(first), std::mem::take(&mut self.wanted_mut(first).next_name))
            }
            (None, None) => {
                let head = &mut self.chains[Self::chain_of(name.quick)];
                (0, std::mem::replace(head, Self::link(new).into()) as ChainLink)
            }
        };
        let creates = u32::from(*creates);
        *self.wanted_mut(new) = Wanted { name: *name, free_since: 0, creates, unused: 0, next_waiter, next_name };
        self.slots[slot].registered |= 1 << at;
        effects.registered(name.quick);
    }

    /// Ends a registration, and returns what it was.
    pub(super) fn unregister(&mut self, gone: Registration, effects: &mut impl Effects) -> Wanted {
        let was = *self.wanted(gone);
        let first = self.first(&was.name);
        if first == Some(gone) {
            match Self::linked(was.next_waiter) {
                Some(next) => {
                    self.wanted_mut(next).next_name = was.next_name;
                    self.replace_first(gone, was.next_waiter);
                }
                None => self.replace_first(gone, was.next_name),
            }
        } else {
            let link = Self::link(gone);
            let precedes = self.from(first).find(|other| self.wanted(*other).next_waiter == link);
            if let Some(precedes) = precedes {
                self.wanted_mut(precedes).next_waiter = was.next_waiter;
            }
        }
        *self.wanted_mut(gone) = Wanted::NONE;
        self.slots[gone.slot].registered &= !(1 << gone.at);
        effects.unregistered(was.name.quick);
        was
    }

    /// Puts another link in the place of the first waiter for a name.
    fn replace_first(&mut self, first: Registration, by: ChainLink) {
        let (link, quick) = (Self::link(first), self.wanted(first).name.quick);
        let precedes = self.chain(quick).find(|other| self.wanted(*other).next_name == link);
        match precedes {
            Some(precedes) => self.wanted_mut(precedes).next_name = by,
            None => self.chains[Self::chain_of(quick)] = by.into(),
        }
    }

    /// Returns the first waiter for each name of a chain.
    fn chain(&self, quick: u64) -> impl Iterator<Item = Registration> {
        let head = Self::linked(self.chains[Self::chain_of(quick)] as ChainLink);
        successors(head, |first| Self::linked(self.wanted(*first).next_name))
    }

    fn chain_of(quick: u64) -> usize {
        (quick % CHAINS as u64) as usize
    }

    fn link(Registration { slot, at }: Registration) -> ChainLink {
        (slot * NAMES + at) as ChainLink + 1
    }

    fn linked(link: ChainLink) -> Option<Registration> {
        let number = link.checked_sub(1)? as usize;
        let registration = Registration { slot: number / NAMES, at: number % NAMES };
        (registration.slot < WAITERS).then_some(registration)
    }
}
