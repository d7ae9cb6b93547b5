//! Waking the background worker of a database when a transaction has tracked a lease.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::pg::background::{self, Sleeper};
use crate::pg::shared::{Shared, shareable};
use crate::pg::transaction_end::Hooks;

/// Databases that can have a worker.
pub const MAX_DATABASES: usize = 64;

shareable! {
    /// The slot in which sessions find the worker of their database.
    pub struct Post {
        /// Its oid; 0: the slot is free.
        database: AtomicU32,
        /// The worker has found nothing to do: sessions with work for it must wake it.
        pub is_idle: AtomicBool,
        sleeper: Sleeper,
    }
}

/// In shared memory.
pub static POSTS: Shared<[Post; MAX_DATABASES]> = Shared::new(c"claims workers");

thread_local! {
    /// Whether this transaction has work for the worker.
    static HAS_WORK: Cell<bool> = const { Cell::new(false) };
}

/// A transaction with work for the worker wakes it when it has ended.
pub const HOOKS: Hooks = Hooks { end: transaction_ended, ..Hooks::NONE };

/// Marks the current transaction as having work for the worker: a tracked lease, or a cell to attend to.
pub fn has_work() {
    HAS_WORK.set(true);
}

/// Called at the end of every transaction: allocates nothing, raises no error, and returns at once if there is no worker.
fn transaction_ended() {
    if !HAS_WORK.replace(false) {
        return;
    }
    let Some(posts) = POSTS.get() else { return };
    let database = background::own_database();
    if let Some(post) = posts.iter().find(|post| post.database.load(Ordering::Acquire) == database) {
        // Of several transactions that commit at the same time only the first wakes it.
        if post.is_idle.swap(false, Ordering::AcqRel) {
            post.sleeper.wake();
        }
    }
}

/// Takes the slot for this process, the worker of its database. `None`: all are taken.
pub fn take_post() -> Option<&'static Post> {
    let database = background::own_database();
    let is_mine = |post: &&Post| {
        let owner = post.database.load(Ordering::Acquire);
        // After a crash the slot of an earlier worker of this database still exists.
        owner == database
            || owner == 0 && post.database.compare_exchange(0, database, Ordering::AcqRel, Ordering::Acquire).is_ok()
    };
    let post = POSTS.get()?.iter().find(is_mine)?;
    post.sleeper.become_it();
    Some(post)
}
