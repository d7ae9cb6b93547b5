//! Knows when a table has changed, by the invalidation messages that Postgres sends for relations.
//!
//! A statement trigger on the table sends the message ([`announce_change`]); every session gets it when the change
//! commits, the changing session at once, and again if it rolls back. Standbys get it from WAL.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::mem::ManuallyDrop;
use std::rc::Rc;

use pgrx::pg_guard;
use pgrx::pg_sys;

thread_local! {
    /// The relations that are watched; an empty list means that nothing is cached.
    static WATCHED: RefCell<Vec<pg_sys::Oid>> = const { RefCell::new(Vec::new()) };
    /// Counts the changes of watched relations.
    static VERSION: Cell<u64> = const { Cell::new(0) };
    /// What was handed out by [`Freshness::of`], and is fresh.
    static FRESHNESS: RefCell<HashMap<pg_sys::Oid, Freshness>> = RefCell::default();
}

/// Says of one relation whether it has changed since: its columns, its owner, its partitions, or rows that are announced.
#[derive(Debug, Clone)]
pub struct Freshness(Rc<Cell<bool>>);

impl Freshness {
    /// Fresh from now on, until the relation changes.
    pub fn of(relation: pg_sys::Oid) -> Self {
        FRESHNESS.with_borrow_mut(|known| {
            known.entry(relation).or_insert_with(|| Freshness(Rc::new(Cell::new(true)))).clone()
        })
    }

    /// Nothing was heard of a change.
    pub fn is_fresh(&self) -> bool {
        self.0.get()
    }
}

/// What is known of relations, each as long as it and what else it was read from does not change, and of no more relations
/// than a session works with at a time. For variables of a session: it is not dropped when the process ends, when there may be
/// nothing left to free a plan with.
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

/// Relations that one cache knows at most. Beyond that it begins anew, which costs a session that works with more of them a
/// reading of the catalogs now and then.
const MAX_RELATIONS: usize = 500;

impl<T> RelationCache<T> {
    pub const fn new() -> Self {
        RelationCache { known: ManuallyDrop::new(RefCell::new(BTreeMap::new())) }
    }

    /// What is known of a relation, if that is still so.
    pub fn get(&self, relation: pg_sys::Oid) -> Option<Rc<T>> {
        self.known.borrow().get(&relation.to_u32()).filter(|known| known.is_fresh()).map(|known| known.value.clone())
    }

    /// Keeps what was read of a relation after its freshness was asked for. What is out of date goes.
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
    // Invalid means: any relation may have changed.
    let watched = relation == pg_sys::InvalidOid || WATCHED.with_borrow(|watched| watched.contains(&relation));
    if watched {
        VERSION.set(VERSION.get() + 1);
    }
    // Whoever asks again gets a new one: what is known of a table that was dropped goes here.
    FRESHNESS.with_borrow_mut(|known| {
        if relation == pg_sys::InvalidOid {
            known.drain().for_each(|(_, freshness)| freshness.0.set(false));
        } else if let Some(freshness) = known.remove(&relation) {
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
