//! The states of breakers: in shared memory, for all sessions of the server; or, if the library is not preloaded, in each
//! session.
//!
//! A service is a foreign server of a database, identified by its oid: one that was dropped and created again is another one. If
//! all slots are taken, a new service replaces the one that has been without failures for the longest.

use std::cell::RefCell;

use claims_model::breaker::Breaker;
use pgrx::pg_sys::Oid;

use crate::pg::background::own_database;
use crate::pg::clock::Moment;
use crate::pg::shared::{Locked, plain};

/// Services that are remembered at once.
const ROOM: usize = 64;

plain! {
    /// The breaker of one service.
    pub struct Slot {
        /// 0: the slot is free.
        database: u32,
        server: u32,
        breaker: Breaker,
    }
}

impl Slot {
    fn is_of(&self, server: Oid) -> bool {
        self.server == server.to_u32() && self.database == own_database()
    }
}

/// In shared memory.
pub static SHARED: Locked<[Slot; ROOM]> = Locked::new(c"claims breakers");

thread_local! {
    /// Without shared memory: the services that this session has called.
    static OWN: RefCell<Vec<Slot>> = const { RefCell::new(Vec::new()) };
}

/// Whether a service has no failures: then nothing changes, and a shared lock is enough.
pub fn is_untroubled(server: Oid) -> bool {
    let look = |slots: &[Slot]| slots.iter().any(|slot| slot.is_of(server) && slot.breaker.is_untroubled());
    SHARED.read(|slots| look(slots)).unwrap_or_else(|| OWN.with_borrow(|own| look(own)))
}

/// Looks at a copy of the breaker of a service; `None`: it was not called yet.
pub fn peek<T>(server: Oid, look: impl Fn(Breaker, i64) -> T) -> Option<T> {
    let now = Moment::now().0;
    let found = |slots: &[Slot]| slots.iter().find(|slot| slot.is_of(server)).map(|slot| slot.breaker);
    let breaker = SHARED.read(|slots| found(slots)).unwrap_or_else(|| OWN.with_borrow(|own| found(own)))?;
    Some(look(breaker, now))
}

/// Changes the breaker of a service. The function must not call back.
pub fn with<T>(server: Oid, change: impl Fn(&mut Breaker, i64) -> T) -> T {
    let now = Moment::now().0;
    let shared = SHARED.write(|slots| {
        let place = slots.iter().position(|slot| slot.is_of(server)).unwrap_or_else(|| least(slots));
        change(breaker_at(slots, place, server, now), now)
    });
    shared.unwrap_or_else(|| {
        OWN.with_borrow_mut(|own| {
            let known = own.iter().position(|slot| slot.is_of(server));
            let place = known.unwrap_or_else(|| if own.len() < ROOM { own.len() } else { least(own) });
            if place == own.len() {
                own.push(Slot { database: 0, server: 0, breaker: Breaker::new(now) });
            }
            change(breaker_at(own, place, server, now), now)
        })
    })
}

/// The breaker in a slot; a new one if the slot belongs to another service.
fn breaker_at(slots: &mut [Slot], place: usize, server: Oid, now: i64) -> &mut Breaker {
    let slot = &mut slots[place];
    if !slot.is_of(server) {
        *slot = Slot { database: own_database(), server: server.to_u32(), breaker: Breaker::new(now) };
    }
    &mut slot.breaker
}

/// A free slot, or that of the service that has been without failures for the longest.
fn least(slots: &[Slot]) -> usize {
    let weight = |slot: &Slot| (slot.database != 0, !slot.breaker.is_untroubled(), slot.breaker.since());
    (0..slots.len()).min_by_key(|place| weight(&slots[*place])).unwrap_or(0)
}

/// The services of this database that were called.
pub fn known() -> Vec<(Oid, Breaker)> {
    let own_of = |slots: &[Slot]| -> Vec<(Oid, Breaker)> {
        let of_here = slots.iter().filter(|slot| slot.database == own_database());
        of_here.map(|slot| (Oid::from(slot.server), slot.breaker)).collect()
    };
    SHARED.read(|slots| own_of(slots)).unwrap_or_else(|| OWN.with_borrow(|own| own_of(own)))
}
