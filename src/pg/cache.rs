//! Knows when a table has changed, by the invalidation messages that Postgres sends for relations.
//!
//! A statement trigger on the table sends the message ([`announce_change`]); every session gets it when the change
//! commits, the changing session at once, and again if it rolls back. Standbys get it from WAL.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use pgrx::pg_guard;
use pgrx::pg_sys;

thread_local! {
    /// The relations that are watched; an empty list means that nothing is cached.
    static WATCHED: RefCell<Vec<pg_sys::Oid>> = const { RefCell::new(Vec::new()) };
    /// Counts the changes of watched relations.
    static VERSION: Cell<u64> = const { Cell::new(0) };
    /// What was handed out by [`Freshness::of`].
    static FRESHNESS: RefCell<HashMap<pg_sys::Oid, Freshness>> = RefCell::default();
}

/// Says of one relation whether it has changed since: its columns, its owner, its partitions, or rows that are announced.
#[derive(Debug, Clone)]
pub struct Freshness(Rc<Cell<bool>>);

impl Freshness {
    /// Fresh from now on, until the relation changes.
    pub fn of(relation: pg_sys::Oid) -> Self {
        FRESHNESS.with_borrow_mut(|known| {
            let known = known.entry(relation).or_insert_with(|| Freshness(Rc::new(Cell::new(true))));
            if !known.is_fresh() {
                *known = Freshness(Rc::new(Cell::new(true)));
            }
            known.clone()
        })
    }

    /// Nothing was heard of a change.
    pub fn is_fresh(&self) -> bool {
        self.0.get()
    }
}

/// Called once per process.
pub fn register() {
    // SAFETY: the callback lives as long as the library, which is never unloaded.
    unsafe { pg_sys::CacheRegisterRelcacheCallback(Some(relation_changed), pg_sys::Datum::from(0)) };
}

#[pg_guard]
extern "C-unwind" fn relation_changed(_argument: pg_sys::Datum, relation: pg_sys::Oid) {
    // Invalid means: any relation may have changed.
    let watched = relation == pg_sys::InvalidOid || WATCHED.with_borrow(|watched| watched.contains(&relation));
    if watched {
        VERSION.set(VERSION.get() + 1);
    }
    FRESHNESS.with_borrow(|known| {
        if relation == pg_sys::InvalidOid {
            known.values().for_each(|freshness| freshness.0.set(false));
        } else if let Some(freshness) = known.get(&relation) {
            freshness.0.set(false);
        }
    });
}

/// From now on changes of these relations count.
pub fn watch(relations: Vec<pg_sys::Oid>) {
    WATCHED.replace(relations);
}

/// A number that grows whenever a watched relation may have changed. Takes in what other sessions have announced.
pub fn version() -> u64 {
    // SAFETY: may run callbacks, ours included, which only count.
    unsafe { pg_sys::AcceptInvalidationMessages() };
    VERSION.get()
}

/// Takes in what other sessions have announced.
pub fn catch_up() {
    // SAFETY: may run callbacks, ours included, which only count.
    unsafe { pg_sys::AcceptInvalidationMessages() };
}

/// Tells all sessions, as part of this transaction, that a relation's rows have changed.
pub fn announce_change(relation: pg_sys::Oid) {
    // SAFETY: queues a message; the relation exists, since its trigger is running.
    unsafe { pg_sys::CacheInvalidateRelcacheByRelid(relation) };
}
