//! The calls of this server that wait for names which leases hold, in shared memory. `claims_model::waiting` has the rules.
//! Without preloading there is no queue.
//!
//! A begin asks first whether anybody waits at all, which is one atomic read, then for each name whether somebody may wait for
//! it, and takes the lock of the queue only then. A settlement collects quick hashes of its names, and its COMMIT wakes the
//! waiters once it is visible to them. A transaction that is prepared has forgotten its names when it is committed: then all
//! waiters of the database look. They look every 50 ms in any case.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use claims_model::waiting::{self, Arrival, Before, Effects, QueuedName, SeenWaiter, WaiterSlot, Wish, quick_hash};
use claims_model::{Bucket, nesting};
use zerocopy::FromBytes;

use crate::kernel::call::Call;
use crate::kernel::settings;
use pg::background::own_database;
use pg::clock::monotonic;
use pg::shared::{Locked, Shared};
use pg::transaction_end::{Hooks, current_subtransaction};
use pg::{prepared_transaction, process};

::pgrx::extension_sql_file!(
    "../../sql/install/service/waiters.sql",
    name = "waiters",
    requires = ["admin", service::metrics::list_lease_waiters]
);

/// Calls that can wait at the same time on one server.
const MAX_WAITERS: usize = 1024;
/// Names for which one of them is registered. It looks at the others whenever one of these has come free.
const MAX_NAMES: usize = 32;

/// Gates, and chains of the queue: who waits for one name seldom meets those that wait for others.
const GATES: usize = 4096;

type NameQueue = waiting::WaitingQueue<MAX_WAITERS, MAX_NAMES, GATES>;

pub static QUEUE: Locked<NameQueue> = Locked::new(c"claims waiters");

/// The numbers of registrations. With them most calls learn that nobody waits for their names, without the lock of the queue.
#[derive(FromBytes)]
pub struct Gate {
    all: AtomicU32,
    by_quick_hash: [AtomicU32; GATES],
}

pub static GATE: Shared<Gate> = Shared::new(c"claims waiters gate");

impl Gate {
    fn of(&self, quick: u64) -> &AtomicU32 {
        &self.by_quick_hash[(quick % GATES as u64) as usize]
    }

    fn is_open(&self, quick: u64) -> bool {
        self.of(quick).load(SeqCst) == 0
    }
}

impl Effects for &Gate {
    fn wake(&mut self, process: u32) {
        process::wake(process);
    }

    fn registered(&mut self, quick: u64) {
        self.all.fetch_add(1, SeqCst);
        self.of(quick).fetch_add(1, SeqCst);
    }

    fn unregistered(&mut self, quick: u64) {
        self.of(quick).fetch_sub(1, SeqCst);
        self.all.fetch_sub(1, SeqCst);
    }
}

/// Returns the gate if anybody waits for a name.
fn busy_gate() -> Option<&'static Gate> {
    GATE.get().filter(|gate| gate.all.load(SeqCst) != 0)
}

/// Changes the queue.
fn change<R>(body: impl FnOnce(&mut NameQueue, i64, &mut &Gate) -> R) -> Option<R> {
    let mut gate = GATE.get()?;
    let now = monotonic();
    QUEUE.write(|queue| body(queue, now, &mut gate))
}

thread_local! {
    /// The slot of this process, while it waits.
    static OWN: Cell<Option<WaiterSlot>> = const { Cell::new(None) };
    /// The names of the leases that this transaction has settled.
    static SETTLED: RefCell<SettledNames> = const { RefCell::new(SettledNames { names: Vec::new(), is_unknown: false }) };
    /// Quick hashes of the names of leases that this transaction has begun, by subtransaction ([`nesting`]).
    static BEGUN: RefCell<Vec<(u64, u32)>> = const { RefCell::new(Vec::new()) };
}

// --- waiting -----------------------------------------------------------------------------------------------------------

/// The place of this process in the queue, which it leaves when this is dropped.
pub struct QueueEntry {
    place: WaiterSlot,
    not_send: std::marker::PhantomData<*mut ()>,
}

impl QueueEntry {
    /// Joins the queue. Returns `None` if there is none, or if it is full.
    pub fn join(call: &Call, cell_id: i64, priority: i32) -> Option<Self> {
        if !has_queue(call) || OWN.get().is_some() {
            return None;
        }
        let place = change(|queue, now, gate| {
            let (process, database) = (process::own_number(), own_database());
            let arrival = Arrival { process, database, cell_id, priority, now };
            let most = settings::max_lease_waiters();
            queue.join(arrival, most).or_else(|| {
                queue.remove_gone(|process| process::pid(process).is_some(), now, gate);
                queue.join(arrival, most)
            })
        })??;
        OWN.set(Some(place));
        Some(QueueEntry { place, not_send: std::marker::PhantomData })
    }

    /// Registers for the names that a look has found held. Returns whether the caller must look once more before it sleeps.
    pub fn wait_for(&self, wishes: &[Wish], looked_at: i64) -> bool {
        change(|queue, now, gate| queue.wait_for(self.place, wishes, looked_at, now, gate)).unwrap_or(false)
    }

    /// Leaves the queue after a begin has taken these names.
    pub fn leave_with<'b>(self, taken: impl Iterator<Item = &'b Bucket<'b>>) {
        let taken: HashSet<[u64; 2]> = taken.map(|bucket| name(bucket).exact).collect();
        leave(|name| taken.contains(&name.exact));
    }
}

impl Drop for QueueEntry {
    fn drop(&mut self) {
        leave(|_| false);
    }
}

/// Takes this process out of the queue, if it is in it.
fn leave(is_taken: impl Fn(&QueuedName) -> bool) {
    if let Some(place) = OWN.take() {
        change(|queue, now, gate| {
            if queue.is_of(place, process::own_number()) {
                queue.leave(place, is_taken, now, gate);
            }
        });
    }
}

/// Returns whether waiters have an order. If the tables are distributed, leases are begun on nodes that do not share this memory.
pub fn has_queue(call: &Call) -> bool {
    GATE.get().is_some() && call.tables.shares_memory()
}

/// Returns the hashes of a bucket of this database.
pub fn name(bucket: &Bucket) -> QueuedName {
    QueuedName::of(own_database(), bucket)
}

// --- beginning ---------------------------------------------------------------------------------------------------------

/// Returns whether somebody may wait for one of the buckets, so that [`before`] decides whether they may be taken. Returns `false`
/// for a call whose turn it is.
pub fn is_any_wanted<'b>(call: &Call, buckets: impl Iterator<Item = &'b Bucket<'b>>) -> bool {
    let Some(gate) = busy_gate() else { return false };
    let database = own_database();
    let mut buckets = buckets;
    call.tables.shares_memory() && buckets.any(|bucket| !gate.is_open(quick_hash(database, bucket)))
}

/// Returns whether this call may take all these buckets if they are free: nobody waits for one, or this call waits, too, and nobody comes
/// before it.
pub fn is_its_turn<'b, I: Iterator<Item = &'b Bucket<'b>>>(call: &Call, buckets: impl Fn() -> I) -> bool {
    !is_any_wanted(call, buckets()) || OWN.get().is_some() && before(call, buckets()).is_empty()
}

/// Returns for free buckets which waiters come before this call; without those for which nobody does.
pub fn before<'b>(call: &Call, free: impl Iterator<Item = &'b Bucket<'b>>) -> Vec<(&'b Bucket<'b>, Before)> {
    let Some(gate) = busy_gate().filter(|_| call.tables.shares_memory()) else { return Vec::new() };
    let database = own_database();
    let wanted = free.filter(|bucket| !gate.is_open(quick_hash(database, bucket)));
    let (buckets, names): (Vec<_>, Vec<_>) = wanted.map(|bucket| (bucket, name(bucket))).unzip();
    if buckets.is_empty() {
        return Vec::new();
    }
    let before = change(|queue, now, gate| queue.waiters_before(OWN.get(), &names, now, gate)).unwrap_or_default();
    buckets.into_iter().zip(before).filter(|(_, before)| before.waiters > 0).collect()
}

/// Returns how many waiters for a bucket come before this call, whether it is free or not.
pub fn count_before(call: &Call, bucket: &Bucket) -> usize {
    match is_any_wanted(call, std::iter::once(bucket)) {
        true => QUEUE.read(|queue| queue.count_before(OWN.get(), &name(bucket))).unwrap_or(0),
        false => 0,
    }
}

/// Remembers the names of a lease that this transaction has begun and that it may have to wait for later, in vain.
pub fn begun_here<'b>(buckets: impl Iterator<Item = &'b Bucket<'b>>) {
    let (database, subtransaction) = (own_database(), current_subtransaction());
    BEGUN.with_borrow_mut(|begun| begun.extend(buckets.map(|bucket| (quick_hash(database, bucket), subtransaction))));
}

/// Returns whether this transaction has begun a lease on a bucket.
pub fn is_begun_here(bucket: &Bucket) -> bool {
    BEGUN.with_borrow(|begun| {
        let quick = if begun.is_empty() { 0 } else { quick_hash(own_database(), bucket) };
        begun.iter().any(|(hash, _)| *hash == quick)
    })
}

// --- settling ----------------------------------------------------------------------------------------------------------

/// The names that a transaction has freed or given to an owner for good.
struct SettledNames {
    /// Quick hashes, and whether the name has an owner now.
    names: Vec<(u64, bool)>,
    /// Whether there are others.
    is_unknown: bool,
}

/// Maximum number of names that a transaction remembers. After more all waiters look.
const MAX_SETTLED: usize = 4096;

/// Remembers buckets of settled leases, for the waiters, and whether the buckets have an owner now.
pub fn settled<'b>(call: &Call, buckets: impl Iterator<Item = &'b Bucket<'b>>, has_owner: bool) {
    if !has_queue(call) {
        return;
    }
    let database = own_database();
    SETTLED.with_borrow_mut(|settled| {
        for bucket in buckets {
            if settled.names.len() >= MAX_SETTLED {
                settled.is_unknown = true;
                return;
            }
            settled.names.push((quick_hash(database, bucket), has_owner));
        }
    });
}

/// Has all waiters look when this transaction has committed.
pub fn settled_unknown() {
    if GATE.get().is_some() {
        SETTLED.with_borrow_mut(|settled| settled.is_unknown = true);
    }
}

/// Wakes the waiters of settled leases, whose end other transactions can see now.
fn committed() {
    let has_ended_prepared = prepared_transaction::has_ended();
    SETTLED.with_borrow_mut(|settled| {
        let gate = busy_gate().filter(|_| has_ended_prepared || settled.is_unknown || !settled.names.is_empty());
        if let Some(gate) = gate {
            settled.names.retain(|(quick, _)| !gate.is_open(*quick));
            if has_ended_prepared || settled.is_unknown {
                change(|queue, _, gate| queue.wake_all(own_database(), gate));
            } else if !settled.names.is_empty() {
                change(|queue, now, gate| {
                    settled.names.iter().for_each(|(quick, has_owner)| queue.ended(*quick, *has_owner, now, gate));
                });
            }
        }
    });
}

fn aborted() {
    prepared_transaction::has_ended();
    // Where the process ends, no destructor has run.
    leave(|_| false);
}

/// Forgets what the transaction has done.
fn end() {
    SETTLED.with_borrow_mut(|settled| {
        settled.names.clear();
        settled.is_unknown = false;
    });
    BEGUN.with_borrow_mut(Vec::clear);
}

pub const HOOKS: Hooks = Hooks {
    committed,
    aborted,
    end,
    rolled_back: |own| BEGUN.with_borrow_mut(|begun| begun.truncate(nesting::first_since(begun, own, |(_, of)| *of))),
    ..Hooks::NONE
};

// --- reading -----------------------------------------------------------------------------------------------------------

/// Returns the waiters of this database, in their order.
pub fn seen() -> Vec<SeenWaiter> {
    let waiters = QUEUE.read(NameQueue::waiters).unwrap_or_default();
    waiting::seen(waiters).into_iter().filter(|waiter| waiter.database == own_database()).collect()
}
