//! The background workers of this server, in shared memory: the process of each database and duty.
//!
//! A worker keeps its slot until its process ends, even if the launcher that started it ends first. So a database never has two workers
//! for one duty, and a new launcher finds the workers that an earlier one has started.

use zerocopy::FromBytes;

use super::wakeup::{self, MAX_DATABASES};
use crate::pg::background::{self, Sleeper};
use crate::pg::shared::{Locked, Shared};

/// A kind of worker that a database may have. Workers do not wait for each other: slow code of one table's owner must not delay the
/// leases of all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Duty {
    /// Settles, recovers and purges. Runs no code of table owners.
    Recovery = 1,
    /// Verifies: reads the claimed tables, and evaluates conditions and casts of their owners.
    Verification = 2,
}

const DUTIES: usize = 2;
/// Size of a name in bytes, with its terminating zero (NAMEDATALEN).
const NAME_BYTES: usize = 64;

/// The worker that occupies a slot.
#[derive(Clone, Copy, FromBytes)]
pub struct Slot {
    /// 0 for a free slot.
    pid: i32,
    duty: u32,
    database: u32,
    database_name: [u8; NAME_BYTES],
}

const FREE: Slot = Slot { pid: 0, duty: 0, database: 0, database_name: [0; NAME_BYTES] };

/// The slots, in shared memory.
pub static SLOTS: Locked<[Slot; MAX_DATABASES * DUTIES]> = Locked::new(c"claims worker slots");
pub static LAUNCHER: Shared<Sleeper> = Shared::new(c"claims launcher");

pub struct RunningWorker {
    pub pid: i32,
    pub duty: Duty,
    pub database: String,
}

impl Slot {
    fn of_this_process(duty: Duty, database: &str) -> Slot {
        let mut database_name = [0; NAME_BYTES];
        let length = database.len().min(NAME_BYTES - 1);
        database_name[..length].copy_from_slice(&database.as_bytes()[..length]);
        Slot { pid: background::own_pid(), duty: duty as u32, database: background::own_database(), database_name }
    }

    fn running_worker(&self) -> Option<RunningWorker> {
        let name = self.database_name.split(|byte| *byte == 0).next().unwrap_or_default();
        let duty = [Duty::Recovery, Duty::Verification].into_iter().find(|duty| *duty as u32 == self.duty)?;
        let database = String::from_utf8_lossy(name).into_owned();
        (self.pid != 0).then_some(RunningWorker { pid: self.pid, duty, database })
    }
}

/// Takes a slot for this process until it ends, and wakes the launcher. Returns `false` if another process has this duty in this
/// database, or no slot is free.
pub fn take_slot(duty: Duty, database: &str) -> bool {
    background::at_exit(leave_slot);
    let own = Slot::of_this_process(duty, database);
    let take = |slots: &mut [Slot; MAX_DATABASES * DUTIES]| {
        let is_other = |slot: &Slot| slot.pid != 0 && (slot.database, slot.duty) == (own.database, own.duty);
        let free = if slots.iter().any(is_other) { None } else { slots.iter_mut().find(|slot| slot.pid == 0) };
        free.map(|slot| *slot = own).is_some()
    };
    let is_taken = SLOTS.write(take).unwrap_or(false);
    wake_launcher();
    is_taken
}

fn leave_slot() {
    wakeup::leave_wakeup_slot();
    let own = background::own_pid();
    SLOTS.write(|slots| slots.iter_mut().filter(|slot| slot.pid == own).for_each(|slot| *slot = FREE));
    wake_launcher();
}

/// Returns the running workers. One that was just started may still be missing.
pub fn running_workers() -> Vec<RunningWorker> {
    let slots = SLOTS.read(|slots| *slots);
    slots.iter().flatten().filter_map(Slot::running_worker).collect()
}

/// Makes this process the one that is woken when a worker takes or leaves a slot.
pub fn become_launcher() {
    if let Some(launcher) = LAUNCHER.get() {
        launcher.become_this_process();
    }
}

fn wake_launcher() {
    if let Some(launcher) = LAUNCHER.get() {
        launcher.wake();
    }
}
