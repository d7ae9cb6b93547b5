//! The state of the model: the service with one transfer, two cells' rows, leases, verification and a router.

pub const CELLS: usize = 2;
pub const NAMES: usize = 2;

/// The cell where the customer is at first, and the one that it moves to.
pub const OLD: usize = 0;
pub const NEW: usize = 1;

/// The request of one lease: a row that a cell creates with its name, or deletes.
#[derive(Debug, Clone, Copy)]
pub struct TransferWish {
    pub cell: usize,
    pub name: usize,
    pub creates: bool,
    /// The row that it creates, or must find.
    pub row: Row,
}

/// A row of a cell that has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Row {
    None,
    /// A row of the customer.
    Customer,
    /// A row of somebody else who wants a name of the customer.
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Claim {
    Free,
    Active {
        owner: usize,
    },
    Creating {
        lease: usize,
    },
    Destroying {
        lease: usize,
    },
    /// Held by the transfer, whose row names the owner.
    Transferring,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    Preparing,
    Prepared,
    Switched,
    Finishing,
    Finished,
    Cancelled,
}

/// The state of a lease at the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    Unknown,
    Outstanding,
    Committed,
    RolledBack,
}

/// The cell's transaction that takes the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Local {
    NotBegun,
    Open,
    Committed,
    RolledBack,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lease {
    pub end: End,
    pub local: Local,
}

/// A finding of a verification pass that corrects. The correction comes later, or never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Finding {
    None,
    /// A claim of the cell, as it was then, that no row calls for.
    Extra {
        name: usize,
        claim: Claim,
    },
    /// A row without a claim.
    Missing {
        name: usize,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TransferWorld {
    pub claims: [Claim; NAMES],
    pub stage: Stage,
    /// The cell that reads return. A switch changes this one row; the broken protocol that switches each claim has one
    /// for each name.
    pub at: [usize; NAMES],
    /// The names that were marked and not released.
    pub marked: [bool; NAMES],
    pub rows: [[Row; NAMES]; CELLS],
    pub leases: Vec<Lease>,
    pub findings: [Finding; CELLS],
    /// The row of the transfer that a router remembers. Only a broken router does.
    pub remembered: Option<usize>,
    /// A router was sent to a cell without such a row, or got the answer that nobody has the name.
    pub misled: bool,
}

impl TransferWorld {
    pub fn new(leases: usize) -> Self {
        TransferWorld {
            claims: [Claim::Active { owner: OLD }, Claim::Free],
            stage: Stage::Preparing,
            at: [OLD; NAMES],
            marked: [false; NAMES],
            rows: [[Row::Customer, Row::None], [Row::None, Row::None]],
            leases: vec![Lease { end: End::Unknown, local: Local::NotBegun }; leases],
            findings: [Finding::None; CELLS],
            remembered: None,
            misled: false,
        }
    }

    pub fn holds_some(&self) -> bool {
        self.claims.contains(&Claim::Transferring)
    }
}
