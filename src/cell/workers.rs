//! The background workers of this server, in shared memory: the process of each database and duty, and of each service that has one.
//!
//! A worker keeps its slot until its process ends, even if the process that started it ends first. So a database never has two workers
//! for one duty, and a new launcher finds the workers that an earlier one has started.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use pgrx::pg_sys::Oid;
use zerocopy::FromBytes;

use super::wakeup::{self, MAX_DATABASES, MAX_SERVICE_WORKERS};
use pg::background::{self, Sleeper};
use pg::clock;
use pg::shared::{Locked, Shared};

/// A kind of worker that a database may have. Workers do not wait for each other: slow code of one table's owner must not delay the
/// leases of all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Duty {
    /// Settles, recovers and purges. Runs no code of table owners. A database with several services has further workers for this,
    /// one for each service.
    Recovery = 1,
    /// Verifies: reads the claimed tables, and evaluates conditions and casts of their owners.
    Verification = 2,
}

const DUTIES: usize = 2;
const MAX_WORKERS: usize = MAX_DATABASES * DUTIES + MAX_SERVICE_WORKERS;
/// Size of a name in bytes, with its terminating zero (NAMEDATALEN).
const NAME_BYTES: usize = 64;

/// The worker that occupies a slot.
#[derive(Clone, Copy, FromBytes)]
pub struct WorkerSlot {
    /// 0 for a free slot.
    pid: i32,
    duty: u32,
    database: u32,
    /// The foreign server of a worker for a single service; 0 for the others.
    server: u32,
    /// 1 if the worker has failed to update the extension, and will try again.
    has_failed_to_update: u32,
    database_name: [u8; NAME_BYTES],
}

const FREE: WorkerSlot =
    WorkerSlot { pid: 0, duty: 0, database: 0, server: 0, has_failed_to_update: 0, database_name: [0; NAME_BYTES] };

/// The slots, in shared memory.
pub static SLOTS: Locked<[WorkerSlot; MAX_WORKERS]> = Locked::new(c"claims worker slots");
pub static LAUNCHER: Shared<Sleeper> = Shared::new(c"claims launcher");
/// When the launcher began, in microseconds of the clock that all processes share; 0 before that.
pub static LAUNCHED_AT: Shared<AtomicI64> = Shared::new(c"claims launcher's start");

/// How long a launcher that has begun may take until a database has its worker.
const TIME_TO_START: Duration = Duration::from_secs(10);

pub struct RunningWorker {
    pub pid: i32,
    pub duty: Duty,
    pub database: String,
    /// The foreign server that it was started for, if it is one for a single service.
    pub server: Option<Oid>,
}

impl WorkerSlot {
    fn of_this_process(duty: Duty, server: Option<Oid>, database: &str) -> WorkerSlot {
        let mut database_name = [0; NAME_BYTES];
        let length = database.len().min(NAME_BYTES - 1);
        database_name[..length].copy_from_slice(&database.as_bytes()[..length]);
        let server = server.map_or(0, Oid::to_u32);
        let (pid, duty, database) = (background::own_pid(), duty as u32, background::own_database());
        WorkerSlot { pid, duty, database, server, has_failed_to_update: 0, database_name }
    }

    fn running_worker(&self) -> Option<RunningWorker> {
        let name = self.database_name.split(|byte| *byte == 0).next().unwrap_or_default();
        let duty = [Duty::Recovery, Duty::Verification].into_iter().find(|duty| *duty as u32 == self.duty)?;
        let database = String::from_utf8_lossy(name).into_owned();
        let server = (self.server != 0).then(|| Oid::from(self.server));
        (self.pid != 0).then_some(RunningWorker { pid: self.pid, duty, database, server })
    }
}

/// Takes a slot for this process until it ends, and wakes the launcher. A worker for a single service names its foreign server. Returns
/// `false` if another process has this duty in this database, for this server, or no slot is free.
pub fn take_slot(duty: Duty, server: Option<Oid>, database: &str) -> bool {
    background::at_exit(leave_slot);
    let own = WorkerSlot::of_this_process(duty, server, database);
    let key = |slot: &WorkerSlot| (slot.database, slot.duty, slot.server);
    let take = |slots: &mut [WorkerSlot; MAX_WORKERS]| {
        let is_there = slots.iter().any(|slot| slot.pid != 0 && key(slot) == key(&own));
        if is_there || own.server != 0 && !has_room(slots) {
            return false;
        }
        slots.iter_mut().find(|slot| slot.pid == 0).map(|slot| *slot = own).is_some()
    };
    let is_taken = SLOTS.write(take).unwrap_or(false);
    wake_launcher();
    is_taken
}

/// Workers for single services leave room for those that each database has.
fn has_room(slots: &[WorkerSlot; MAX_WORKERS]) -> bool {
    slots.iter().filter(|slot| slot.server != 0).count() < MAX_SERVICE_WORKERS
}

/// Returns whether there is a slot for another worker for a single service.
pub fn has_room_for_service() -> bool {
    SLOTS.read(has_room).unwrap_or(false)
}

/// Returns the foreign servers for which this database has workers of their own.
pub fn served_servers() -> Vec<Oid> {
    let own = background::own_database();
    let slots = SLOTS.read(|slots| *slots);
    let servers = slots.iter().flatten().filter(|slot| slot.database == own && slot.server != 0);
    servers.map(|slot| Oid::from(slot.server)).collect()
}

fn leave_slot() {
    wakeup::leave_wakeup_slot();
    let own = background::own_pid();
    SLOTS.write(|slots| slots.iter_mut().filter(|slot| slot.pid == own).for_each(|slot| *slot = FREE));
    wake_launcher();
    wakeup::workers_have_changed();
}

/// Returns the running workers. One that was just started may still be missing.
pub fn running_workers() -> Vec<RunningWorker> {
    let slots = SLOTS.read(|slots| *slots);
    slots.iter().flatten().filter_map(WorkerSlot::running_worker).collect()
}

/// Makes this process the one that is woken when a worker takes or leaves a slot.
pub fn become_launcher() {
    if let Some(launcher) = LAUNCHER.get() {
        launcher.become_this_process();
    }
    if let Some(launched_at) = LAUNCHED_AT.get() {
        launched_at.store(clock::monotonic(), Ordering::Release);
    }
}

/// Records whether this process, the worker of a database, has failed to update the extension.
pub fn has_failed_to_update(has_failed: bool) {
    let own = background::own_pid();
    SLOTS.write(|slots| {
        slots.iter_mut().filter(|slot| slot.pid == own).for_each(|slot| slot.has_failed_to_update = has_failed.into())
    });
}

/// Returns whether this database has a worker that has not failed to update the extension, or will soon have one.
pub fn may_update_soon() -> bool {
    let own = background::own_database();
    let is_worker = |slot: &&WorkerSlot| {
        slot.pid != 0 && slot.database == own && slot.duty == Duty::Recovery as u32 && slot.server == 0
    };
    let failures = SLOTS.read(|slots| slots.iter().find(is_worker).map(|slot| slot.has_failed_to_update != 0));
    failures.flatten().map_or_else(is_starting, |has_failed| !has_failed)
}

/// Returns whether a launcher that will start workers has not begun yet, or has begun a moment ago.
fn is_starting() -> bool {
    let launched_at = LAUNCHED_AT.get().map(|at| at.load(Ordering::Acquire));
    launched_at.is_some_and(|at| at == 0 || clock::monotonic() - at < TIME_TO_START.as_micros() as i64)
}

fn wake_launcher() {
    if let Some(launcher) = LAUNCHER.get() {
        launcher.wake();
    }
}
