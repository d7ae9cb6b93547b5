//! The waiters as administrators see them.

use std::collections::{HashMap, HashSet};

use super::name::QueuedName;
use super::queue::WaitingQueue;
use super::waiter::Waiter;

/// A waiter, as administrators see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenWaiter {
    pub process: u32,
    pub database: u32,
    pub cell_id: i64,
    pub since: i64,
    pub priority: i32,
    /// The number of names for which it is registered.
    pub names: usize,
    /// 1 for a waiter that no other one precedes.
    pub position: usize,
}

impl<const WAITERS: usize, const NAMES: usize, const CHAINS: usize> WaitingQueue<WAITERS, NAMES, CHAINS> {
    /// Copies the waiters, for [`seen`]. Only this needs the lock.
    pub fn waiters(&self) -> Vec<Waiter<NAMES>> {
        self.in_use().map(|(_, waiter)| *waiter).collect()
    }
}

/// Returns waiters in their order.
pub fn seen<const NAMES: usize>(mut waiters: Vec<Waiter<NAMES>>) -> Vec<SeenWaiter> {
    waiters.sort_by_key(Waiter::rank);
    // The waiters so far, by each of their names.
    let mut earlier: HashMap<QueuedName, Vec<usize>> = HashMap::new();
    let seen = |(number, waiter): (usize, &Waiter<NAMES>)| {
        let mut rivals = HashSet::new();
        for name in waiter.names() {
            let with_name = earlier.entry(*name).or_default();
            rivals.extend(with_name.iter().copied());
            with_name.push(number);
        }
        SeenWaiter {
            process: waiter.process,
            database: waiter.database,
            cell_id: waiter.cell_id,
            since: waiter.since,
            priority: waiter.priority,
            names: waiter.names().count(),
            position: 1 + rivals.len(),
        }
    };
    waiters.iter().enumerate().map(seen).collect()
}
