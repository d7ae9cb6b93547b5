//! Wakes the background worker of a database when a transaction has tracked a lease.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use zerocopy::FromBytes;

use pg::background::{self, Sleeper};
use pg::shared::Shared;
use pg::transaction_end::Hooks;

/// Number of databases that can have workers.
pub const MAX_DATABASES: usize = 64;
/// Number of workers for single services that all databases together can have.
pub const MAX_SERVICE_WORKERS: usize = 64;

/// The slot in which sessions find a worker of their database.
#[derive(FromBytes)]
pub struct WakeupSlot {
    /// Oid of the database; 0 for a free slot.
    database: AtomicU32,
    /// 1 if the worker has found nothing to do, so that sessions with work must wake it.
    pub is_idle: AtomicU32,
    sleeper: Sleeper,
}

pub static WAKEUP_SLOTS: Shared<[WakeupSlot; MAX_DATABASES + MAX_SERVICE_WORKERS]> = Shared::new(c"claims workers");

thread_local! {
    /// Whether this transaction has work for the worker.
    static HAS_WORK: Cell<bool> = const { Cell::new(false) };
    /// The slot of this process if it is a worker.
    static OWN: Cell<Option<&'static WakeupSlot>> = const { Cell::new(None) };
}

/// Wakes the workers at the end of a transaction that has work for them.
pub const HOOKS: Hooks = Hooks { end: transaction_ended, ..Hooks::NONE };

/// Marks the current transaction as having work for the worker: a tracked lease, or a cell to attend to.
pub fn has_work() {
    HAS_WORK.set(true);
}

/// Wakes the workers at the end of a transaction. It allocates nothing, raises no error, and returns at once if there is no work.
fn transaction_ended() {
    if !HAS_WORK.replace(false) {
        return;
    }
    for slot in slots_of_database() {
        // If several transactions end at the same time, only the first one wakes it.
        if slot.is_idle.swap(0, Ordering::AcqRel) == 1 {
            slot.sleeper.wake();
        }
    }
}

fn slots_of_database() -> impl Iterator<Item = &'static WakeupSlot> {
    let database = background::own_database();
    let slots = WAKEUP_SLOTS.get().into_iter().flatten();
    slots.filter(move |slot| slot.database.load(Ordering::Acquire) == database)
}

/// Has the workers of this database check which workers it has.
pub fn workers_have_changed() {
    slots_of_database().for_each(|slot| slot.sleeper.wake());
}

/// Takes a slot for this process, a worker that the sessions of its database wake. Returns `None` if all slots are taken.
pub fn take_wakeup_slot() -> Option<&'static WakeupSlot> {
    let database = background::own_database();
    let is_free =
        |slot: &&WakeupSlot| slot.database.compare_exchange(0, database, Ordering::AcqRel, Ordering::Acquire).is_ok();
    let slot = WAKEUP_SLOTS.get()?.iter().find(is_free)?;
    slot.sleeper.become_this_process();
    OWN.set(Some(slot));
    Some(slot)
}

/// Releases the slot of this process.
pub fn leave_wakeup_slot() {
    if let Some(slot) = OWN.take() {
        slot.is_idle.store(0, Ordering::Release);
        slot.database.store(0, Ordering::Release);
    }
}
