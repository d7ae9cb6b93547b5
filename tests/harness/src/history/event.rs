//! What clients write down.

use crate::batch::Batch;
use uuid::Uuid;

/// A span of time, in nanoseconds since the run began, in which something took effect at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The request was sent: not before.
    pub lo: u64,
    /// The answer was there: not after.
    pub hi: u64,
}

impl Window {
    pub fn new(lo: u64, hi: u64) -> Self {
        Self { lo, hi }
    }

    /// Both windows hold: the span they share.
    pub fn and(self, other: Self) -> Self {
        Self { lo: self.lo.max(other.lo), hi: self.hi.min(other.hi) }
    }

    /// Whether the two share a moment.
    pub fn meets(self, other: Self) -> bool {
        self.lo <= other.hi && other.lo <= self.hi
    }
}

/// How a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Committed,
    RolledBack,
}

/// A bucket as one moment shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Free,
    /// A lease of that cell is creating it.
    Creating(i64),
    Active(i64),
    /// A lease of that cell is destroying it.
    Destroying(i64),
}

impl State {
    /// The cell that has it.
    pub fn owner(self) -> Option<i64> {
        match self {
            Self::Free => None,
            Self::Creating(cell) | Self::Active(cell) | Self::Destroying(cell) => Some(cell),
        }
    }
}

/// One fact about one lease.
#[derive(Clone, Debug)]
pub enum Deed {
    /// The server acknowledged the begin; the buckets were held from some moment of the window on. Others
    /// see that at `shown` at the latest, when the transaction was known to have committed.
    Begun { cell: i64, batch: Batch, shown: u64 },
    /// A begin was sent and its outcome never heard.
    BeginLost { cell: i64, batch: Batch },
    /// The server showed the lease as outstanding.
    Outstanding,
    /// A settling call said that it did it (`first`), or that it had been done before.
    Settled { outcome: Outcome, first: bool },
    /// A settling call was sent and its outcome never heard.
    SettleLost(Outcome),
    /// The server told the outcome without having been asked to settle.
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
    /// The client was shown the bucket in one of these states.
    Seen {
        bucket: String,
        any_of: Vec<State>,
        at: Window,
    },
}
