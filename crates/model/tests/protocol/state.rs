//! The state of the model: the service, the cells' databases, and the passes of recovery.

use claims_model::judge::{LocalTransaction, Step, Verdict};

pub const CELLS: usize = 2;
pub const BUCKETS: usize = 2;

/// The request of one lease. The leases of a run are fixed.
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    pub cell: usize,
    pub creates: &'static [usize],
    pub destroys: &'static [usize],
}

impl Wish {
    /// Returns the creates that take a new claim. A bucket that is also destroyed is replaced.
    pub fn new_claims(&self) -> impl Iterator<Item = &'static usize> {
        let destroys = self.destroys;
        self.creates.iter().filter(move |bucket| !destroys.contains(bucket))
    }
}

/// The state of a lease at the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    Unknown,
    Outstanding,
    Committed,
    RolledBack,
}

/// The state of a bucket at the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BucketState {
    Free,
    Active { owner: usize },
    Creating { lease: usize },
    Destroying { lease: usize },
}

/// The cell's transaction that took the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Local {
    NotBegun,
    Open,
    /// Open, and it has tracked the lease, so it holds the lease's key.
    Tracking,
    Committed,
    RolledBack,
}

/// A lease: at the service, in its cell, and in messages between them. A sent message can arrive at any later time, any
/// number of times, or never. The end of a lease is final, so a reply about it can be read from the service's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseRow {
    pub outcome: End,
    /// It was committed, and the service has not flushed that yet. A crash of the service may undo it.
    pub unflushed: bool,
    /// The service has sent the reply to begin.
    pub begun: bool,
    pub commit_sent: bool,
    pub rollback_sent: bool,
    pub local: Local,
    /// In the cell, committed.
    pub tracked: bool,
    /// In the cell, committed.
    pub fenced: bool,
}

/// A pass of recovery on one lease, by the facts that it has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PassStage {
    Idle,
    Listed {
        lease: usize,
    },
    FenceRead {
        lease: usize,
        fenced: bool,
        tracked_too_early: bool,
    },
    TransactionRead {
        lease: usize,
        fenced: bool,
        transaction: LocalTransaction,
        tracked_too_early: bool,
    },
    Judged {
        lease: usize,
        step: Step,
    },
    /// The message of the verdict was sent. `fencing` says that the fence is written but not committed, and that the
    /// pass holds the key.
    Settling {
        lease: usize,
        verdict: Verdict,
        fencing: bool,
    },
}

impl PassStage {
    pub fn lease(self) -> Option<usize> {
        match self {
            PassStage::Idle => None,
            PassStage::Listed { lease }
            | PassStage::FenceRead { lease, .. }
            | PassStage::TransactionRead { lease, .. }
            | PassStage::Judged { lease, .. }
            | PassStage::Settling { lease, .. } => Some(lease),
        }
    }

    pub fn holds_key_of(self, wanted: usize) -> bool {
        matches!(self, PassStage::Settling { lease, fencing: true, .. } if lease == wanted)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    pub claims: [BucketState; BUCKETS],
    /// The rows that are saved: cell, bucket.
    pub rows: [[bool; BUCKETS]; CELLS],
    pub leases: Vec<LeaseRow>,
    pub passes: Vec<PassStage>,
}

impl World {
    pub fn new(leases: usize, passes: usize) -> Self {
        let lease = LeaseRow {
            outcome: End::Unknown,
            unflushed: false,
            begun: false,
            commit_sent: false,
            rollback_sent: false,
            local: Local::NotBegun,
            tracked: false,
            fenced: false,
        };
        World {
            claims: [BucketState::Free; BUCKETS],
            rows: [[false; BUCKETS]; CELLS],
            leases: vec![lease; leases],
            passes: vec![PassStage::Idle; passes],
        }
    }

    pub fn is_open(&self, lease: usize) -> bool {
        matches!(self.leases[lease].local, Local::Open | Local::Tracking)
    }

    /// Returns whether another transaction holds the key that both tracking and fencing take.
    pub fn key_is_held(&self, lease: usize) -> bool {
        self.leases[lease].local == Local::Tracking || self.passes.iter().any(|pass| pass.holds_key_of(lease))
    }
}
