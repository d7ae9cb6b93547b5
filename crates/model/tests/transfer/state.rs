//! What the world is made of: the service with one transfer, two cells' rows, leases, verification and a router.

pub const CELLS: usize = 2;
pub const NAMES: usize = 2;

/// Where the customer lives at first, and where it goes.
pub const OLD: usize = 0;
pub const NEW: usize = 1;

/// What one lease is about: a row that a cell creates with its name, or deletes.
#[derive(Debug, Clone, Copy)]
pub struct TransferWish {
    pub cell: usize,
    pub name: usize,
    pub creates: bool,
    /// What the row is that it creates, or must find.
    pub row: Row,
}

/// A row of a cell that has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Row {
    None,
    /// The customer's.
    Customer,
    /// Somebody else's, who wants a name of the customer.
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
    /// Held by the transfer: its row says whose it is.
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

/// How a lease stands at the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    Unknown,
    Outstanding,
    Committed,
    RolledBack,
}

/// The cell's transaction that takes it.
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

/// What a pass of verification, correcting, has found; the rest of it comes later, or never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Finding {
    None,
    /// A claim of the cell, as it was then, that no row calls for.
    Extra {
        name: usize,
        claim: Claim,
    },
    /// A row without any claim.
    Missing {
        name: usize,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TransferWorld {
    pub claims: [Claim; NAMES],
    pub stage: Stage,
    /// The one row that a switch changes. (The broken protocol that switches claim by claim has one each.)
    pub at: [usize; NAMES],
    /// Names that were marked and not let go.
    pub marked: [bool; NAMES],
    pub rows: [[Row; NAMES]; CELLS],
    pub leases: Vec<Lease>,
    pub findings: [Finding; CELLS],
    /// What a router has remembered of the transfer; only a broken one does.
    pub remembered: Option<usize>,
    /// A router was sent to a cell that has no such row, or told that nobody has the name.
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
