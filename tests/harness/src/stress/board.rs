//! The state that workers share: the clock, each cell's knowledge of its leases, and the saboteur's targets.

use super::service::Service;
use super::{BUCKETS, CELLS, CONNECTIONS};
use crate::batch::Batch;
use crate::history::Window;
use postgres::CancelToken;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use uuid::Uuid;

/// The number of settled leases that a cell remembers, to repeat calls about them.
const REMEMBERED: usize = 64;

#[derive(Clone, Debug)]
pub struct Lease {
    pub uuid: Uuid,
    pub batch: Batch,
}

/// A begin without a client's uuid whose answer was lost. The source id of its creates identifies it.
#[derive(Clone, Debug)]
pub struct LostBegin {
    pub batch: Batch,
    pub at: Window,
}

/// The knowledge of one cell. Its two connections share it, as two processes of one application would.
#[derive(Debug, Default)]
pub struct Book {
    pub outstanding: Vec<Lease>,
    pub done: VecDeque<Lease>,
    pub lost: Vec<LostBegin>,
    /// Leases that began under a client's uuid, and whose answer was lost.
    pub unresolved: Vec<Lease>,
}

impl Book {
    /// Records that the lease has ended.
    pub fn settled(&mut self, uuid: Uuid) {
        if let Some(place) = self.outstanding.iter().position(|l| l.uuid == uuid) {
            let lease = self.outstanding.swap_remove(place);
            self.done.push_back(lease);
        }
        while self.done.len() > REMEMBERED {
            self.done.pop_front();
        }
    }

    /// Returns the lease, if it is remembered.
    pub fn find(&self, uuid: Uuid) -> Option<Lease> {
        self.outstanding.iter().chain(&self.done).find(|l| l.uuid == uuid).cloned()
    }

    /// Records that the lease is outstanding.
    pub fn begun(&mut self, lease: Lease) {
        if self.find(lease.uuid).is_none() {
            self.outstanding.push(lease);
        }
    }
}

/// A connection that the saboteur can hit.
pub struct Target {
    /// The node that it leads to.
    pub node: usize,
    pub pid: i32,
    pub token: CancelToken,
}

pub struct Board {
    pub service: Service,
    pub seed: u64,
    start: Instant,
    pub over: AtomicBool,
    pub buckets: Vec<String>,
    /// The probable owner of each bucket (0 is nobody). It helps to draw good batches, and decides nothing.
    pub hints: Vec<AtomicI64>,
    books: Vec<Mutex<Book>>,
    targets: Vec<Mutex<Option<Target>>>,
    next_source: AtomicI64,
    /// The times in which a part of a commit may have waited for recovery on a node.
    dark: Mutex<Vec<Window>>,
}

impl Board {
    pub fn new(service: Service, seed: u64) -> Self {
        let scripts = ["route", "straße", "маршрут", "🚂路線"];
        Self {
            service,
            seed,
            start: Instant::now(),
            over: AtomicBool::new(false),
            buckets: (0..BUCKETS).map(|n| format!("{}/{n:03}", scripts[n % scripts.len()])).collect(),
            hints: (0..BUCKETS).map(|_| AtomicI64::new(0)).collect(),
            books: (0..CELLS).map(|_| Mutex::default()).collect(),
            targets: (0..CONNECTIONS).map(|_| Mutex::default()).collect(),
            next_source: AtomicI64::new(1),
            dark: Mutex::default(),
        }
    }

    /// Returns the nanoseconds since the run began.
    pub fn now(&self) -> u64 {
        self.start.elapsed().as_nanos().try_into().unwrap_or(u64::MAX)
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    /// Returns a source id that no other batch has.
    pub fn fresh_source(&self) -> i64 {
        self.next_source.fetch_add(1, Relaxed)
    }

    /// Records that, from now on, reads of some nodes may show a state from before an acknowledged commit.
    pub fn darken(&self) {
        let since = Window::new(self.now(), u64::MAX);
        self.dark.lock().unwrap_or_else(PoisonError::into_inner).push(since);
    }

    /// Records that reads are consistent again.
    pub fn lighten(&self) {
        if let Some(window) = self.dark.lock().unwrap_or_else(PoisonError::into_inner).last_mut() {
            window.hi = self.now();
        }
    }

    /// Returns whether reads may have been inconsistent at some time in the window.
    pub fn was_dark(&self, at: Window) -> bool {
        self.dark.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|dark| dark.meets(at))
    }

    pub fn is_dark(&self) -> bool {
        let now = self.now();
        self.was_dark(Window::new(now, now))
    }

    pub fn book(&self, cell: i64) -> MutexGuard<'_, Book> {
        self.books[(cell - 1) as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn target(&self, number: usize) -> MutexGuard<'_, Option<Target>> {
        self.targets[number].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the probable owners after a settled batch: `creates` of its creates, and `destroys` of its destroys (0
    /// is nobody).
    pub fn hint(&self, batch: &Batch, creates: i64, destroys: i64) {
        let set = |name: &str, owner: i64| {
            if let Some(index) = self.buckets.iter().position(|b| b == name) {
                self.hints[index].store(owner, Relaxed);
            }
        };
        batch.creates.iter().for_each(|(name, _)| set(name, creates));
        batch.destroys.iter().for_each(|name| set(name, destroys));
    }
}
