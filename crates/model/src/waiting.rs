//! The order of calls that wait for names which leases hold. The queue has a fixed size and no pointers, so that it can
//! be in shared memory behind a lock. Times are microseconds of any one clock that never goes back.
//!
//! - A waiter is registered for the names that it has found held. It is not registered for the other names of its
//!   batch: those that are free are not kept from others.
//! - All waiters have one order, whatever names they wait for, so they cannot wait for each other in a circle. Who
//!   waits for longer goes first. A priority counts like as many seconds of waiting, so that nobody starves.
//! - A call that does not wait, and one that begins to wait, comes after all waiters who precede it. It must not try to
//!   take a name for which one of them is registered, even if the name is free.
//! - A name that has come free is kept for its first waiter for [`KEPT_US`]. After that the waiter is no longer
//!   registered for the name, because it may be dead. If it is alive, it registers again when it looks, and has its old
//!   position.
//! - Only the first waiter is woken when a name comes free. It wakes the next one when it leaves, or when it registers
//!   for other names. If the name now belongs to somebody for good, all waiters are woken, because all of them must say
//!   so.
//! - Nobody relies on being woken: every waiter looks again after [`POLL_US`].

use zerocopy::FromBytes;

use crate::claim::Bucket;

/// Microseconds for which a name that has come free is kept for its first waiter.
pub const KEPT_US: i64 = 100_000;
/// Microseconds after which a waiter that nobody has woken looks again.
pub const POLL_US: i64 = 50_000;
/// A priority of one counts like waiting for a second.
pub const PRIORITY_US: i64 = 1_000_000;

/// A name for which calls wait, as hashes of its bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, FromBytes)]
pub struct Name {
    /// Two names with one quick hash are woken together. It decides nothing.
    pub quick: u64,
    /// Decides whether two names are the same. Nobody can find two names with one exact hash.
    pub exact: [u64; 2],
}

impl Name {
    /// Returns the hashes of a bucket of a database.
    pub fn of(database: u32, bucket: &Bucket) -> Self {
        use sha2::{Digest, Sha256};
        let mut hash = Sha256::new();
        hash.update(database.to_le_bytes());
        hash.update(bucket.bucket_type.to_le_bytes());
        hash.update(bucket.value.as_bytes());
        let digest = hash.finalize();
        let part = |at: usize| digest[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        Name { quick: quick_hash(database, bucket), exact: [part(0), part(8)] }
    }
}

/// Returns the quick hash of a bucket of a database.
pub fn quick_hash(database: u32, bucket: &Bucket) -> u64 {
    use std::hash::Hasher;
    let mut hash = std::hash::DefaultHasher::new();
    hash.write_u32(database);
    hash.write_i32(bucket.bucket_type);
    hash.write(bucket.value.as_bytes());
    hash.finish()
}

/// Effects of a change of the queue outside of it. Called under the lock of the queue.
pub trait Effects {
    /// Wakes a waiting process.
    fn wake(&mut self, process: u32);
    /// A waiter was registered for a name.
    fn registered(&mut self, _quick: u64) {}
    /// A waiter is no longer registered for a name.
    fn unregistered(&mut self, _quick: u64) {}
}

/// A name for which a waiter is registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, FromBytes)]
struct Wanted {
    name: Name,
    /// When the name came free while this waiter was the first one; 0 if it did not.
    free_since: i64,
}

impl Wanted {
    const NONE: Wanted = Wanted { name: Name { quick: 0, exact: [0; 2] }, free_since: 0 };
}

/// A call that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, FromBytes)]
pub struct Waiter<const NAMES: usize> {
    /// The process; 0 for a free slot.
    pub process: u32,
    pub database: u32,
    pub cell_id: i64,
    /// When it began to wait.
    pub since: i64,
    pub priority: i32,
    /// The number of names in use.
    count: u32,
    /// Decides between waiters that began at one moment.
    ticket: u64,
    wanted: [Wanted; NAMES],
}

impl<const NAMES: usize> Waiter<NAMES> {
    fn names(&self) -> &[Wanted] {
        self.wanted.get(..self.count as usize).unwrap_or(&self.wanted)
    }

    /// The position in the total order. All waiters age at the same pace, so it does not change.
    fn rank(&self) -> (i64, u64) {
        (self.since.saturating_sub(i64::from(self.priority) * PRIORITY_US), self.ticket)
    }

    fn position(&self, name: &Name) -> Option<usize> {
        self.names().iter().position(|wanted| wanted.name == *name)
    }

    fn wants(&self, name: &Name) -> bool {
        self.position(name).is_some()
    }
}

/// A call that begins to wait.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    pub process: u32,
    pub database: u32,
    pub cell_id: i64,
    pub priority: i32,
    pub now: i64,
}

/// The waiters of a server: at most `WAITERS`, each registered for at most `NAMES` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, FromBytes)]
pub struct Queue<const WAITERS: usize, const NAMES: usize> {
    last_ticket: u64,
    /// No slot from this one on is in use.
    end: u64,
    slots: [Waiter<NAMES>; WAITERS],
}

/// The slot of a waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place(pub usize);

/// The waiters that precede a call at a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Before {
    pub waiters: usize,
    /// Until when the name is kept for the first of them.
    pub kept_until: Option<i64>,
}

/// A waiter, as administrators see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenWaiter {
    pub process: u32,
    pub database: u32,
    pub cell_id: i64,
    pub since: i64,
    pub priority: i32,
    /// The number of names for which it is registered.
    pub names: usize,
    /// 1 for a waiter that no other one precedes.
    pub position: usize,
}

impl<const WAITERS: usize, const NAMES: usize> Queue<WAITERS, NAMES> {
    fn in_use(&self) -> impl Iterator<Item = (usize, &Waiter<NAMES>)> {
        let end = usize::try_from(self.end).unwrap_or(WAITERS).min(WAITERS);
        self.slots[..end].iter().enumerate().filter(|(_, waiter)| waiter.process != 0)
    }

    pub fn len(&self) -> usize {
        self.in_use().count()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Lets a call wait, registered for no name yet. Returns `None` if `most` calls wait, or if all slots are taken.
    pub fn join(&mut self, arrival: Arrival, most: usize) -> Option<Place> {
        if self.len() >= most {
            return None;
        }
        let slot = self.slots.iter().position(|waiter| waiter.process == 0)?;
        let Arrival { process, database, cell_id, priority, now } = arrival;
        self.last_ticket += 1;
        let waiter = &mut self.slots[slot];
        *waiter = Waiter {
            process,
            database,
            cell_id,
            since: now,
            priority,
            count: 0,
            ticket: self.last_ticket,
            wanted: waiter.wanted,
        };
        self.end = self.end.max(slot as u64 + 1);
        Some(Place(slot))
    }

    /// Returns the first waiter for a name, of those that precede a rank.
    fn first(&self, name: &Name, before: Option<(i64, u64)>) -> Option<(usize, usize)> {
        let precedes = |waiter: &Waiter<NAMES>| before.is_none_or(|rank| waiter.rank() < rank);
        self.in_use()
            .filter(|(_, waiter)| precedes(waiter))
            .filter_map(|(slot, waiter)| Some((waiter.rank(), slot, waiter.position(name)?)))
            .min()
            .map(|(_, slot, at)| (slot, at))
    }

    /// Keeps a free name for its first waiter, from now on or since it came free, and wakes it if that is new. Waiters for
    /// which it was kept long enough lose it.
    fn keep(&mut self, name: &Name, now: i64, effects: &mut impl Effects) {
        while let Some((slot, at)) = self.first(name, None) {
            let wanted = &mut self.slots[slot].wanted[at];
            if wanted.free_since == 0 {
                // 0 means that it is not free.
                wanted.free_since = now.max(1);
                return effects.wake(self.slots[slot].process);
            }
            if now < wanted.free_since.saturating_add(KEPT_US) {
                return;
            }
            self.unregister(slot, at, effects);
        }
    }

    /// Offers a name that has come free, or that its first waiter gives up, to the one that is the first now, and wakes it
    /// in any case: it may be looking at an earlier state. The name is kept for it from now on, however long it was kept
    /// for it before somebody else took it.
    fn offer(&mut self, name: &Name, now: i64, effects: &mut impl Effects) {
        if let Some((slot, at)) = self.first(name, None) {
            // 0 means that it is not free.
            self.slots[slot].wanted[at].free_since = now.max(1);
            effects.wake(self.slots[slot].process);
        }
    }

    fn unregister(&mut self, slot: usize, at: usize, effects: &mut impl Effects) -> Wanted {
        let waiter = &mut self.slots[slot];
        let wanted = waiter.wanted[at];
        let last = waiter.names().len() - 1;
        waiter.wanted[at] = waiter.wanted[last];
        waiter.wanted[last] = Wanted::NONE;
        waiter.count = last as u32;
        effects.unregistered(wanted.name.quick);
        wanted
    }

    /// Returns how many waiters for a name precede a call, whether the name is free or not. `None` is a call that does not
    /// wait.
    pub fn count_before(&self, place: Option<Place>, name: &Name) -> usize {
        let rank = place.map(|Place(slot)| self.slots[slot].rank());
        let precedes = |waiter: &Waiter<NAMES>| rank.is_none_or(|rank| waiter.rank() < rank) && waiter.wants(name);
        self.in_use().filter(|(_, waiter)| precedes(waiter)).count()
    }

    /// Returns for each of several names that a call has found free, which waiters precede it: of those that wait for the
    /// name, and for whom it is still kept. The call may take its batch if there are none for any of its names. `None` is
    /// a call that does not wait. It comes last.
    pub fn waiters_before(
        &mut self,
        place: Option<Place>,
        free: &[Name],
        now: i64,
        effects: &mut impl Effects,
    ) -> Vec<Before> {
        let rank = place.map(|Place(slot)| self.slots[slot].rank());
        let mut before = Vec::with_capacity(free.len());
        for name in free {
            if self.first(name, rank).is_some() {
                self.keep(name, now, effects);
            }
            let first = self.first(name, rank);
            let kept_until = first.map(|(slot, at)| self.slots[slot].wanted[at].free_since.saturating_add(KEPT_US));
            before.push(Before { waiters: self.count_before(place, name), kept_until });
        }
        before
    }

    /// Registers a waiter for the names that it has found held or kept for others, in place of those before; for the
    /// first `NAMES` of them. Its last look began at `looked_at`. Returns whether one of the names is new: it may have
    /// come free since that look, so the waiter must look once more before it sleeps.
    pub fn wait_for(
        &mut self,
        Place(slot): Place,
        names: &[Name],
        looked_at: i64,
        now: i64,
        effects: &mut impl Effects,
    ) -> bool {
        let names = &names[..names.len().min(NAMES)];
        let mut at = self.slots[slot].names().len();
        while let Some(next) = at.checked_sub(1) {
            at = next;
            let wanted = &mut self.slots[slot].wanted[at];
            if names.contains(&wanted.name) {
                // The look has shown it held, unless it has come free since.
                if wanted.free_since < looked_at {
                    wanted.free_since = 0;
                }
            } else {
                self.give_up(slot, at, now, effects);
            }
        }
        let mut has_new = false;
        for name in names {
            let waiter = &mut self.slots[slot];
            if !waiter.wants(name) {
                waiter.wanted[waiter.count as usize] = Wanted { name: *name, free_since: 0 };
                waiter.count += 1;
                has_new = true;
                effects.registered(name.quick);
            }
        }
        has_new
    }

    /// Ends a registration. A name that was kept for this waiter is kept for the next one.
    fn give_up(&mut self, slot: usize, at: usize, now: i64, effects: &mut impl Effects) {
        let Wanted { name, free_since } = self.unregister(slot, at, effects);
        if free_since != 0 {
            self.offer(&name, now, effects);
        }
    }

    /// Lets a waiter leave. Names that it has not taken are kept for the next waiters.
    pub fn leave(
        &mut self,
        Place(slot): Place,
        is_taken: impl Fn(&Name) -> bool,
        now: i64,
        effects: &mut impl Effects,
    ) {
        let waiter = &mut self.slots[slot];
        let left: Vec<Wanted> = waiter.names().to_vec();
        waiter.wanted.iter_mut().take(left.len()).for_each(|wanted| *wanted = Wanted::NONE);
        *waiter = Waiter {
            process: 0,
            database: 0,
            cell_id: 0,
            since: 0,
            priority: 0,
            count: 0,
            ticket: 0,
            wanted: waiter.wanted,
        };
        for Wanted { name, free_since } in left {
            effects.unregistered(name.quick);
            if free_since != 0 && !is_taken(&name) {
                self.offer(&name, now, effects);
            }
        }
        self.end = self.in_use().last().map_or(0, |(slot, _)| slot as u64 + 1);
    }

    /// Handles the end of a lease, after it has become visible, for all names with this quick hash. If the name may belong
    /// to somebody for good now, all waiters must look, and otherwise the first one.
    pub fn ended(&mut self, quick: u64, is_for_good: bool, now: i64, effects: &mut impl Effects) {
        let mut names: Vec<Name> = Vec::new();
        for (_, waiter) in self.in_use() {
            let wanted = waiter.names().iter().map(|wanted| wanted.name).filter(|name| name.quick == quick);
            names.extend(wanted.filter(|name| !names.contains(name)).collect::<Vec<_>>());
        }
        for name in names {
            self.offer(&name, now, effects);
        }
        if is_for_good {
            self.in_use()
                .filter(|(_, waiter)| waiter.names().iter().any(|wanted| wanted.name.quick == quick))
                .for_each(|(_, waiter)| effects.wake(waiter.process));
        }
    }

    /// Wakes all waiters of a database, when it is not known which leases have ended.
    pub fn wake_all(&self, database: u32, effects: &mut impl Effects) {
        let of_database = self.in_use().filter(|(_, waiter)| waiter.database == database);
        of_database.for_each(|(_, waiter)| effects.wake(waiter.process));
    }

    /// Removes waiters whose process is gone.
    pub fn remove_gone(&mut self, is_there: impl Fn(u32) -> bool, now: i64, effects: &mut impl Effects) {
        let gone: Vec<_> =
            self.in_use().filter(|(_, waiter)| !is_there(waiter.process)).map(|(slot, _)| slot).collect();
        gone.into_iter().for_each(|slot| self.leave(Place(slot), |_| false, now, effects));
    }

    /// Returns whether a slot belongs to a process.
    pub fn is_of(&self, Place(slot): Place, process: u32) -> bool {
        self.slots.get(slot).is_some_and(|waiter| waiter.process == process && process != 0)
    }

    /// Returns the waiters in their order.
    pub fn seen(&self) -> Vec<SeenWaiter> {
        let mut waiters: Vec<_> = self.in_use().map(|(_, waiter)| waiter).collect();
        waiters.sort_by_key(|waiter| waiter.rank());
        let position = |number: usize, waiter: &Waiter<NAMES>| {
            let is_rival = |other: &&&Waiter<NAMES>| waiter.names().iter().any(|wanted| other.wants(&wanted.name));
            1 + waiters[..number].iter().filter(is_rival).count()
        };
        let seen = |(number, waiter): (usize, &&Waiter<NAMES>)| SeenWaiter {
            process: waiter.process,
            database: waiter.database,
            cell_id: waiter.cell_id,
            since: waiter.since,
            priority: waiter.priority,
            names: waiter.names().len(),
            position: position(number, waiter),
        };
        waiters.iter().enumerate().map(seen).collect()
    }
}
