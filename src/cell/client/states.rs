//! The states of breakers. They are in shared memory, for all sessions of the server, or in each session if the library is not
//! preloaded.
//!
//! A service is a foreign server of a database, identified by its oid: if it was dropped and created again, it is another service. If
//! all slots are taken, a new service replaces the one that has been without failures for the longest time.

use std::cell::RefCell;

use claims_model::breaker::Breaker;
use pgrx::pg_sys::Oid;
use zerocopy::FromBytes;

use pg::background::own_database;
use pg::clock::Moment;
use pg::shared::Locked;

/// Maximum number of services that are remembered.
const MAX_SERVICES: usize = 64;

/// The breaker of one service.
#[derive(Clone, Copy, FromBytes)]
pub struct BreakerSlot {
    /// 0 for a free slot.
    database: u32,
    server: u32,
    breaker: Breaker,
}

impl BreakerSlot {
    fn is_of(&self, server: Oid) -> bool {
        self.server == server.to_u32() && self.database == own_database()
    }
}

pub static SHARED: Locked<[BreakerSlot; MAX_SERVICES]> = Locked::new(c"claims breakers");

thread_local! {
    /// The services that this session has called, without shared memory.
    static OWN: RefCell<Vec<BreakerSlot>> = const { RefCell::new(Vec::new()) };
}

/// Returns whether a service has no failures. Then its state does not change, and a shared lock is enough.
pub fn has_no_failures(server: Oid) -> bool {
    let read = |slots: &[BreakerSlot]| slots.iter().any(|slot| slot.is_of(server) && slot.breaker.has_no_failures());
    SHARED.read(|slots| read(slots)).unwrap_or_else(|| OWN.with_borrow(|own| read(own)))
}

/// Passes a copy of a service's breaker to `read`. Returns `None` if the service was not called yet.
pub fn peek<T>(server: Oid, read: impl Fn(Breaker, i64) -> T) -> Option<T> {
    let now = Moment::now().0;
    let found = |slots: &[BreakerSlot]| slots.iter().find(|slot| slot.is_of(server)).map(|slot| slot.breaker);
    let breaker = SHARED.read(|slots| found(slots)).unwrap_or_else(|| OWN.with_borrow(|own| found(own)))?;
    Some(read(breaker, now))
}

/// Changes the breaker of a service. `change` must not call functions of this module.
pub fn with<T>(server: Oid, change: impl Fn(&mut Breaker, i64) -> T) -> T {
    let now = Moment::now().0;
    let shared = SHARED.write(|slots| {
        let index = slots.iter().position(|slot| slot.is_of(server)).unwrap_or_else(|| replaceable(slots));
        change(breaker_at(slots, index, server, now), now)
    });
    shared.unwrap_or_else(|| {
        OWN.with_borrow_mut(|own| {
            let known = own.iter().position(|slot| slot.is_of(server));
            let index = known.unwrap_or_else(|| if own.len() < MAX_SERVICES { own.len() } else { replaceable(own) });
            if index == own.len() {
                own.push(BreakerSlot { database: 0, server: 0, breaker: Breaker::new(now) });
            }
            change(breaker_at(own, index, server, now), now)
        })
    })
}

/// Returns the breaker in a slot, or a new one if the slot belongs to another service.
fn breaker_at(slots: &mut [BreakerSlot], index: usize, server: Oid, now: i64) -> &mut Breaker {
    let slot = &mut slots[index];
    if !slot.is_of(server) {
        *slot = BreakerSlot { database: own_database(), server: server.to_u32(), breaker: Breaker::new(now) };
    }
    &mut slot.breaker
}

/// Returns the index of a free slot, or of the service that has been without failures for the longest time.
fn replaceable(slots: &[BreakerSlot]) -> usize {
    let weight = |slot: &BreakerSlot| (slot.database != 0, !slot.breaker.has_no_failures(), slot.breaker.since());
    (0..slots.len()).min_by_key(|index| weight(&slots[*index])).unwrap_or(0)
}

/// Returns the services of this database that were called.
pub fn known() -> Vec<(Oid, Breaker)> {
    let own_of = |slots: &[BreakerSlot]| -> Vec<(Oid, Breaker)> {
        let of_here = slots.iter().filter(|slot| slot.database == own_database());
        of_here.map(|slot| (Oid::from(slot.server), slot.breaker)).collect()
    };
    SHARED.read(|slots| own_of(slots)).unwrap_or_else(|| OWN.with_borrow(|own| own_of(own)))
}
