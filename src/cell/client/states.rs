//! Where the breakers of services lie: in shared memory, so that all sessions of the server know what one of them has found
//! out; or, where the library is not preloaded, in each session's own.
//!
//! A service is a foreign server of a database, by its oid: one that was dropped and made again is another one. There is room for
//! so many; beyond that the newcomer takes the place of the one that matters least.

use std::cell::RefCell;

use claims_model::breaker::Breaker;
use pgrx::pg_sys::Oid;

use crate::pg::background::own_database;
use crate::pg::clock::Moment;
use crate::pg::shared::Locked;
use crate::plain;

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

/// Lies in shared memory.
pub static SHARED: Locked<[Slot; ROOM]> = Locked::new(c"claims breakers");

thread_local! {
    /// Where there is none: the services that this session has called.
    static OWN: RefCell<Vec<Slot>> = const { RefCell::new(Vec::new()) };
}

/// Whether all is known to be well with a service: then there is nothing to change, and others may look at the same time.
pub fn is_untroubled(server: Oid) -> bool {
    let look = |slots: &[Slot]| slots.iter().any(|slot| slot.is_of(server) && slot.breaker.is_untroubled());
    SHARED.read(|slots| look(slots)).unwrap_or_else(|| OWN.with_borrow(|own| look(own)))
}

/// Does something with the breaker of a service. It must not come back here.
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

/// The breaker in a slot; a new one where the slot is another service's as yet.
fn breaker_at(slots: &mut [Slot], place: usize, server: Oid, now: i64) -> &mut Breaker {
    let slot = &mut slots[place];
    if !slot.is_of(server) {
        *slot = Slot { database: own_database(), server: server.to_u32(), breaker: Breaker::new(now) };
    }
    &mut slot.breaker
}

/// A free slot, or that of the service which has been without trouble for the longest, or else what it is.
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
