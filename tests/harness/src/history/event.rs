//! The events that clients record.

use crate::batch::Batch;
use uuid::Uuid;

/// A window of time, in nanoseconds since the run began, in which something took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// When the request was sent; it took effect later.
    pub lo: u64,
    /// When the answer arrived; it took effect earlier.
    pub hi: u64,
}

impl Window {
    pub fn new(lo: u64, hi: u64) -> Self {
        Self { lo, hi }
    }

    /// Returns the intersection of two windows.
    pub fn and(self, other: Self) -> Self {
        Self { lo: self.lo.max(other.lo), hi: self.hi.min(other.hi) }
    }

    /// Returns whether the two intersect.
    pub fn meets(self, other: Self) -> bool {
        self.lo <= other.hi && other.lo <= self.hi
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Committed,
    RolledBack,
}

/// The state of a bucket at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Free,
    /// A lease of this cell is creating it.
    Creating(i64),
    Active(i64),
    /// A lease of this cell is destroying it.
    Destroying(i64),
}

impl State {
    /// Returns the cell that has it.
    pub fn owner(self) -> Option<i64> {
        match self {
            Self::Free => None,
            Self::Creating(cell) | Self::Active(cell) | Self::Destroying(cell) => Some(cell),
        }
    }
}

/// A fact about one lease.
#[derive(Clone, Debug)]
pub enum Deed {
    /// The server acknowledged the begin. The buckets were held from some time in the window on. Others see that at
    /// `shown` at the latest, when the transaction was known to have committed.
    Begun { cell: i64, batch: Batch, shown: u64 },
    /// A begin was sent, and its answer was lost.
    BeginLost { cell: i64, batch: Batch },
    /// The server listed the lease as outstanding.
    Outstanding,
    /// A settling call answered that it has settled the lease (`first`), or that it was settled before.
    Settled { outcome: Outcome, first: bool },
    /// A settling call was sent, and its answer was lost.
    SettleLost(Outcome),
    /// The server returned the outcome, and no settlement was requested.
    Told(Outcome),
}

/// A line of a client's notes.
#[derive(Clone, Debug)]
pub enum Event {
    Lease {
        lease: Uuid,
        deed: Deed,
        at: Window,
    },
    /// The client saw the bucket in one of these states.
    Seen {
        bucket: String,
        any_of: Vec<State>,
        at: Window,
    },
}
