//! Where sessions find the background worker of their database: a transaction that has tracked a lease wakes it.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::pg::background::{self, Sleeper};
use crate::pg::shared::{Shared, shareable};
use crate::pg::transaction_end::Hooks;

/// Databases that can have a worker.
pub const MAX_DATABASES: usize = 64;

shareable! {
    /// Where sessions find the worker of their database.
    pub struct Post {
        /// Its oid; 0: the post is free.
        database: AtomicU32,
        /// The worker has looked and found nothing: whoever has something for it must wake it.
        pub is_idle: AtomicBool,
        sleeper: Sleeper,
    }
}

/// Lies in shared memory.
pub static POSTS: Shared<[Post; MAX_DATABASES]> = Shared::new(c"claims workers");

thread_local! {
    /// This transaction leaves something to do for the worker.
    static HAS_WORK: Cell<bool> = const { Cell::new(false) };
}

/// A transaction that leaves something to do wakes the worker when it has ended.
pub const HOOKS: Hooks = Hooks { end: transaction_ended, ..Hooks::NONE };

/// The transaction that is running leaves something to do for the worker: a tracked lease, or a cell to attend to.
pub fn has_work() {
    HAS_WORK.set(true);
}

/// Called in every transaction's last moment: allocates nothing, raises nothing, and is over at once where there is no worker.
fn transaction_ended() {
    if !HAS_WORK.replace(false) {
        return;
    }
    let Some(posts) = POSTS.get() else { return };
    let database = background::own_database();
    if let Some(post) = posts.iter().find(|post| post.database.load(Ordering::Acquire) == database) {
        // Of many transactions that commit at once the first wakes it.
        if post.is_idle.swap(false, Ordering::AcqRel) {
            post.sleeper.wake();
        }
    }
}

/// The post of this process, which is the worker of its database. `None`: all are taken.
pub fn take_post() -> Option<&'static Post> {
    let database = background::own_database();
    let is_mine = |post: &&Post| {
        let owner = post.database.load(Ordering::Acquire);
        // One of an earlier worker of this database is still there after a crash of that.
        owner == database
            || owner == 0 && post.database.compare_exchange(0, database, Ordering::AcqRel, Ordering::Acquire).is_ok()
    };
    let post = POSTS.get()?.iter().find(is_mine)?;
    post.sleeper.become_it();
    Some(post)
}
