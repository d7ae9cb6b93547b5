//! Cache invalidation: notices changes of tables by the relcache invalidation messages of Postgres.
//!
//! A statement trigger on the table sends the message ([`announce_change`]); every session gets it when the change
//! commits, the changing session at once, and again if it rolls back. Standbys get it from WAL.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::mem::ManuallyDrop;
use std::rc::Rc;

use pgrx::pg_guard;
use pgrx::pg_sys;

use super::gate;

thread_local! {
    /// The relations that are watched; empty if nothing is cached.
    static WATCHED: RefCell<Vec<pg_sys::Oid>> = const { RefCell::new(Vec::new()) };
    /// Counts the changes of watched relations.
    static VERSION: Cell<u64> = const { Cell::new(0) };
    /// What [`Freshness::of`] has returned and is still valid.
    static FRESHNESS: RefCell<HashMap<pg_sys::Oid, Freshness>> = RefCell::default();
}

/// Tells whether one relation has changed since: its columns, owner, partitions, or rows of which [`announce_change`] tells.
#[derive(Debug, Clone)]
pub struct Freshness(Rc<Cell<bool>>);

impl Freshness {
    /// Fresh from now on, until the relation changes.
    pub fn of(relation: pg_sys::Oid) -> Self {
        FRESHNESS.with_borrow_mut(|known| {
            known.entry(relation).or_insert_with(|| Freshness(Rc::new(Cell::new(true)))).clone()
        })
    }

    /// No change was announced.
    pub fn is_fresh(&self) -> bool {
        self.0.get()
    }
}

/// A bounded cache with one entry for each relation, valid until the relation, or what else the entry was read from, changes.
/// For variables of a session: it is not dropped when the process ends, because plans can no longer be freed then.
pub struct RelationCache<T> {
    /// By the relation's number.
    known: ManuallyDrop<RefCell<BTreeMap<u32, CachedValue<T>>>>,
}

struct CachedValue<T> {
    fresh: [Freshness; 2],
    value: Rc<T>,
}

impl<T> CachedValue<T> {
    fn is_fresh(&self) -> bool {
        self.fresh.iter().all(Freshness::is_fresh)
    }
}

/// Most relations that one cache holds. When it is full it is emptied: a session that works with more of them reads the
/// catalogs again now and then.
const MAX_RELATIONS: usize = 500;

impl<T> RelationCache<T> {
    pub const fn new() -> Self {
        RelationCache { known: ManuallyDrop::new(RefCell::new(BTreeMap::new())) }
    }

    /// The entry of a relation, if it is still valid.
    pub fn get(&self, relation: pg_sys::Oid) -> Option<Rc<T>> {
        self.known.borrow().get(&relation.to_u32()).filter(|known| known.is_fresh()).map(|known| known.value.clone())
    }

    /// Adds an entry, which was read after the relation's freshness was asked for, and removes outdated entries.
    pub fn put(&self, relation: pg_sys::Oid, fresh: [Freshness; 2], value: T) -> Rc<T> {
        let value = Rc::new(value);
        let known = CachedValue { fresh, value: value.clone() };
        let gone = {
            let mut all = self.known.borrow_mut();
            let is_full = all.len() >= MAX_RELATIONS;
            let gone: Vec<_> = all.extract_if(.., |_, known| is_full || !known.is_fresh()).collect();
            (gone, all.insert(relation.to_u32(), known))
        };
        // Not while the cache is borrowed: freeing plans is Postgres' business.
        drop(gone);
        value
    }
}

/// Called once per process.
pub fn register() {
    // SAFETY: the callback lives as long as the library, which is never unloaded.
    unsafe { pg_sys::CacheRegisterRelcacheCallback(Some(relation_changed), pg_sys::Datum::from(0)) };
}

#[pg_guard]
extern "C-unwind" fn relation_changed(_argument: pg_sys::Datum, relation: pg_sys::Oid) {
    gate::relation_changed(relation);
    // Invalid means: any relation may have changed.
    let watched = relation == pg_sys::InvalidOid || WATCHED.with_borrow(|watched| watched.contains(&relation));
    if watched {
        VERSION.set(VERSION.get() + 1);
    }
    // The next call makes a new one; entries of dropped tables are removed here.
    FRESHNESS.with_borrow_mut(|known| {
        if relation == pg_sys::InvalidOid {
            known.drain().for_each(|(_, freshness)| freshness.0.set(false));
        } else if let Some(freshness) = known.remove(&relation) {
            freshness.0.set(false);
        }
    });
}

/// From now on changes of these relations are counted.
pub fn watch(relations: Vec<pg_sys::Oid>) {
    WATCHED.replace(relations);
}

/// A number that increases whenever a watched relation may have changed. Processes pending invalidation messages.
pub fn version() -> u64 {
    // SAFETY: may run callbacks, ours included, which only count.
    unsafe { pg_sys::AcceptInvalidationMessages() };
    VERSION.get()
}

/// Processes pending invalidation messages.
pub fn catch_up() {
    // SAFETY: may run callbacks, ours included, which only count.
    unsafe { pg_sys::AcceptInvalidationMessages() };
}

/// Tells all sessions, as part of this transaction, that a relation's rows have changed.
pub fn announce_change(relation: pg_sys::Oid) {
    // SAFETY: queues a message; the relation exists, since its trigger is running.
    unsafe { pg_sys::CacheInvalidateRelcacheByRelid(relation) };
}
