//! The state of the model: two services, the cells' databases, and the passes of recovery.

use claims_model::judge::Verdict;

pub const SERVICES: usize = 2;
pub const CELLS: usize = 2;

/// A transaction, and the services at which it claims a name. Each service has one name. The transactions of a run are fixed.
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    pub cell: usize,
    pub services: &'static [usize],
}

/// The state of a lease at its service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    Unknown,
    Outstanding,
    Committed,
    RolledBack,
}

/// The state of a service's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Claim {
    Free,
    Creating { transaction: usize },
    Active { owner: usize },
}

/// A transaction in its cell's database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Local {
    NotBegun,
    /// Open. It has sent its begins to all of its services.
    Open,
    Committed,
    RolledBack,
}

/// A lease: at its service, in its cell, and in messages between them. A message arrives at any later time, any number of times, or
/// never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseRow {
    pub outcome: End,
    /// The service has sent the reply to begin.
    pub begun: bool,
    /// A pass has sent a rollback.
    pub rollback_sent: bool,
    /// The open transaction has tracked it, and holds its key.
    pub tracking: bool,
    /// In the cell, committed.
    pub tracked: bool,
    /// In the cell, committed.
    pub fenced: bool,
}

/// A transaction and one of its services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId {
    pub transaction: usize,
    pub service: usize,
}

/// A pass of recovery at one service, on one lease. `protocol` has the steps between the facts that it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PassStage {
    Idle,
    Listed(LeaseId),
    /// The message of the verdict was sent. `fencing` says that the fence is written but not committed, and that the pass holds the
    /// key.
    Settling {
        id: LeaseId,
        verdict: Verdict,
        fencing: bool,
    },
}

impl PassStage {
    pub fn lease(self) -> Option<LeaseId> {
        match self {
            PassStage::Idle => None,
            PassStage::Listed(id) | PassStage::Settling { id, .. } => Some(id),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    pub claims: [Claim; SERVICES],
    /// The rows that are saved: cell, and the service of the name.
    pub rows: [[bool; SERVICES]; CELLS],
    pub local: Vec<Local>,
    pub leases: Vec<[LeaseRow; SERVICES]>,
    pub passes: Vec<PassStage>,
    pub is_dead: [bool; SERVICES],
    /// A pass has reported that something was saved without a claim.
    pub has_orphan: bool,
}

impl World {
    pub fn new(transactions: usize, passes: usize, is_dead: [bool; SERVICES]) -> Self {
        let lease = LeaseRow {
            outcome: End::Unknown,
            begun: false,
            rollback_sent: false,
            tracking: false,
            tracked: false,
            fenced: false,
        };
        World {
            claims: [Claim::Free; SERVICES],
            rows: [[false; SERVICES]; CELLS],
            local: vec![Local::NotBegun; transactions],
            leases: vec![[lease; SERVICES]; transactions],
            passes: vec![PassStage::Idle; passes],
            is_dead,
            has_orphan: false,
        }
    }

    pub fn lease(&self, id: LeaseId) -> &LeaseRow {
        &self.leases[id.transaction][id.service]
    }

    pub fn lease_mut(&mut self, id: LeaseId) -> &mut LeaseRow {
        &mut self.leases[id.transaction][id.service]
    }

    /// Returns the same state with every service alive.
    pub fn revived(&self) -> World {
        World { is_dead: [false; SERVICES], ..self.clone() }
    }

    /// Returns whether a pass is writing a fence of the lease, so that it holds the key.
    pub fn is_being_fenced(&self, lease: LeaseId) -> bool {
        self.passes.iter().any(|pass| matches!(pass, PassStage::Settling { id, fencing: true, .. } if *id == lease))
    }
}
