//! What the world is made of: the service, the cells' databases, and the passes of recovery that are under way.

use claims_model::judge::{LocalTransaction, Step, Verdict};

pub const CELLS: usize = 2;
pub const BUCKETS: usize = 2;

/// What one lease is about. Which leases there are is fixed for a run.
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    pub cell: usize,
    pub creates: &'static [usize],
    pub destroys: &'static [usize],
}

impl Wish {
    /// What is to be taken of its creates: a bucket that it destroys, too, is replaced.
    pub fn new_claims(&self) -> impl Iterator<Item = &'static usize> {
        let destroys = self.destroys;
        self.creates.iter().filter(move |bucket| !destroys.contains(bucket))
    }
}

/// What the service knows of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    Unknown,
    Outstanding,
    Committed,
    RolledBack,
}

/// What the service has for a bucket.
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
    /// Open, and it has tracked the lease: it holds the lease's key.
    Tracking,
    Committed,
    RolledBack,
}

/// A lease: at the service, in its cell, and on the way between them. What was sent can arrive at any time from then on,
/// any number of times, or never. The end of a lease is final, so a reply that tells it can be read off the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseRow {
    pub outcome: End,
    /// It was committed, and the service has not flushed that yet: a crash there may undo it.
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

/// A pass of recovery on one lease, by what it has read so far.
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
    /// What follows from the verdict was sent. `fencing`: the fence is written, not committed; the pass holds the key.
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

    /// Whether another transaction holds the key through which tracking and fencing both pass.
    pub fn key_is_held(&self, lease: usize) -> bool {
        self.leases[lease].local == Local::Tracking || self.passes.iter().any(|pass| pass.holds_key_of(lease))
    }
}
