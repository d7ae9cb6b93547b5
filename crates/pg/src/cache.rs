//! Cache invalidation by PostgreSQL's relcache invalidation messages.
//!
//! A statement trigger on the table sends the message ([`announce_change`]). Every other session receives it when the
//! change commits. The changing session receives it at once, and again if the change rolls back. Standbys receive it
//! from WAL.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::mem::ManuallyDrop;
use std::rc::Rc;

use pgrx::{pg_guard, pg_sys};

use super::compatibility;

thread_local! {
    /// The watched relations; empty if nothing is cached.
    static WATCHED: RefCell<Vec<pg_sys::Oid>> = const { RefCell::new(Vec::new()) };
    /// The number of changes of watched relations.
    static VERSION: Cell<u64> = const { Cell::new(0) };
    /// The results of [`Freshness::of`] that are still valid.
    static FRESHNESS: RefCell<HashMap<pg_sys::Oid, Freshness>> = RefCell::default();
}

/// A flag that a change of one relation clears: of its columns, owner, partitions, or of rows if [`announce_change`]
/// reports that.
#[derive(Debug, Clone)]
pub struct Freshness(Rc<Cell<bool>>);

impl Freshness {
    /// Returns a flag that is set until the relation changes.
    pub fn of(relation: pg_sys::Oid) -> Self {
        FRESHNESS.with_borrow_mut(|entries| {
            entries.entry(relation).or_insert_with(|| Freshness(Rc::new(Cell::new(true)))).clone()
        })
    }

    /// Returns whether no change was announced.
    pub fn is_fresh(&self) -> bool {
        self.0.get()
    }
}

/// A bounded cache with one entry per relation, which is valid until that relation, or another one that the entry was
/// read from, changes. It is for variables of a session. It is not dropped when the process ends, because plans can no
/// longer be freed then.
pub struct RelationCache<T> {
    entries: ManuallyDrop<RefCell<BTreeMap<u32, CachedValue<T>>>>,
    /// The largest number of entries. A full cache is emptied, so a session that works with more relations reads the
    /// catalogs again from time to time.
    most: usize,
    /// The number of entries at which the next new one makes it look for outdated ones.
    to_sweep: Cell<usize>,
}

struct CachedValue<T> {
    fresh: Box<[Freshness]>,
    value: Rc<T>,
}

impl<T> CachedValue<T> {
    fn is_fresh(&self) -> bool {
        self.fresh.iter().all(Freshness::is_fresh)
    }
}

/// The largest number of entries with plans, each of which takes some 20 kB.
pub const MOST_PLANS: usize = 500;
/// The number of entries that are looked at for each new one.
const FEW: usize = 100;

impl<T> RelationCache<T> {
    pub const fn new(most: usize) -> Self {
        RelationCache { entries: ManuallyDrop::new(RefCell::new(BTreeMap::new())), most, to_sweep: Cell::new(0) }
    }

    /// Returns the entry of a relation if it is still valid.
    pub fn get(&self, relation: pg_sys::Oid) -> Option<Rc<T>> {
        self.entries.borrow().get(&relation.to_u32()).filter(|entry| entry.is_fresh()).map(|entry| entry.value.clone())
    }

    /// Removes the entry of a relation.
    pub fn remove(&self, relation: pg_sys::Oid) {
        let gone = self.entries.borrow_mut().remove(&relation.to_u32());
        // Dropped after the borrow has ended, because PostgreSQL may call back while it frees plans.
        drop(gone);
    }

    /// Adds an entry, and removes outdated ones. Among many it looks for these when their number has doubled: looking at all of them for each new
    /// one would take a time that is quadratic in their number. The entry must have been read after its `fresh` flags were requested.
    pub fn put(&self, relation: pg_sys::Oid, fresh: impl Into<Box<[Freshness]>>, value: T) -> Rc<T> {
        let value = Rc::new(value);
        let entry = CachedValue { fresh: fresh.into(), value: value.clone() };
        let gone = {
            let mut all = self.entries.borrow_mut();
            let is_full = all.len() >= self.most;
            let to_sweep = self.to_sweep.get().min(self.most);
            let mut gone = Vec::new();
            if all.len() < FEW || all.len() >= to_sweep {
                gone = all.extract_if(.., |_, entry| is_full || !entry.is_fresh()).collect();
                self.to_sweep.set(2 * all.len());
            }
            (gone, all.insert(relation.to_u32(), entry))
        };
        // Dropped after the borrow has ended, because PostgreSQL may call back while it frees plans.
        drop(gone);
        value
    }
}

/// Registers the callback. Called once per process.
pub fn register() {
    // SAFETY: the callback lives as long as the library, which is never unloaded.
    unsafe { pg_sys::CacheRegisterRelcacheCallback(Some(relation_changed), pg_sys::Datum::from(0)) };
}

#[pg_guard]
extern "C-unwind" fn relation_changed(_argument: pg_sys::Datum, relation: pg_sys::Oid) {
    compatibility::relation_changed(relation);
    // An invalid number means that any relation may have changed.
    let watched = relation == pg_sys::InvalidOid || WATCHED.with_borrow(|watched| watched.contains(&relation));
    if watched {
        VERSION.set(VERSION.get() + 1);
    }
    // The next call of `Freshness::of` creates a new flag. So entries of dropped tables disappear here.
    FRESHNESS.with_borrow_mut(|entries| {
        if relation == pg_sys::InvalidOid {
            entries.drain().for_each(|(_, freshness)| freshness.0.set(false));
        } else if let Some(freshness) = entries.remove(&relation) {
            freshness.0.set(false);
        }
    });
}

/// Sets the relations whose changes are counted from now on.
pub fn watch(relations: Vec<pg_sys::Oid>) {
    WATCHED.replace(relations);
}

/// Returns a number that increases whenever a watched relation may have changed. Processes pending invalidation
/// messages.
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

/// Notifies all sessions, as part of this transaction, that a relation's rows have changed.
pub fn announce_change(relation: pg_sys::Oid) {
    // SAFETY: queues a message; the relation exists, since its trigger is running.
    unsafe { pg_sys::CacheInvalidateRelcacheByRelid(relation) };
}
