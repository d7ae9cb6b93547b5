//! A call that waits, and the names for which it is registered.

use zerocopy::FromBytes;

use super::name::QueuedName;

/// Microseconds for which a name that has come free is kept for its first waiter.
pub const KEPT_US: i64 = 100_000;
/// Microseconds after which a waiter that nobody has woken looks again.
pub const POLL_US: i64 = 50_000;
/// A priority of one counts like waiting for a second.
pub const PRIORITY_US: i64 = 1_000_000;

/// The number of a registration in the queue, plus one; 0 is none.
pub(super) type ChainLink = u32;

/// A name that a call wants, and finds held or kept for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    pub name: QueuedName,
    /// Whether the call creates a claim on the name, which must have no owner. Otherwise the name must have one.
    pub creates: bool,
}

/// A name for which a waiter is registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, FromBytes)]
pub(super) struct Wanted {
    pub name: QueuedName,
    /// When the name came free while this waiter was the first one; 0 if it did not.
    pub free_since: i64,
    /// 1 if the waiter creates a claim on the name.
    pub creates: u32,
    /// Keeps the size a multiple of the alignment.
    pub unused: u32,
    /// The next waiter for this name.
    pub next_waiter: ChainLink,
    /// Of the first waiter for a name: the first waiter for the next name with the same chain.
    pub next_name: ChainLink,
}

impl Wanted {
    pub const NONE: Wanted = Wanted {
        name: QueuedName { quick: 0, exact: [0; 2] },
        free_since: 0,
        creates: 0,
        unused: 0,
        next_waiter: 0,
        next_name: 0,
    };
}

/// A call that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, FromBytes)]
pub struct Waiter<const NAMES: usize> {
    /// The process; 0 for a free slot.
    pub process: u32,
    pub database: u32,
    pub cell_id: i64,
    /// When it began to wait.
    pub since: i64,
    pub priority: i32,
    /// Of a free slot: the number of the next free slot plus one; 0 is none.
    pub(super) next_free: u32,
    /// Decides between waiters that began at one moment.
    pub(super) ticket: u64,
    /// A bit for each element of `wanted` that is in use.
    pub(super) registered: u64,
    pub(super) wanted: [Wanted; NAMES],
}

impl<const NAMES: usize> Waiter<NAMES> {
    const BITS: () = assert!(NAMES <= 64, "`registered` has a bit for each name");

    /// Returns the positions of its registrations.
    pub(super) fn positions(&self) -> impl Iterator<Item = usize> + use<NAMES> {
        let () = Self::BITS;
        let registered = self.registered;
        (0..NAMES).filter(move |at| registered >> at & 1 == 1)
    }

    /// Returns the position of a registration that is not in use.
    pub(super) fn free_position(&self) -> Option<usize> {
        let at = self.registered.trailing_ones() as usize;
        (at < NAMES).then_some(at)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &QueuedName> {
        self.positions().map(|at| &self.wanted[at].name)
    }

    /// Returns the position in the total order. All waiters age at the same pace, so it does not change.
    pub(super) fn rank(&self) -> (i64, u64) {
        (self.since.saturating_sub(i64::from(self.priority) * PRIORITY_US), self.ticket)
    }
}

/// A call that begins to wait.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    pub process: u32,
    pub database: u32,
    pub cell_id: i64,
    pub priority: i32,
    pub now: i64,
}
