//! The state of the model: the service with two spellings of a name, leases of two cells, a transfer and a change of the profile.

/// Two spellings, which become one name when the profile changes.
pub const NAMES: usize = 2;

/// The cell where the customer that moves is at first, and the one that it moves to.
pub const OLD: usize = 0;
pub const NEW: usize = 1;
/// The subject of the customer that moves. The other subject stays where it is.
pub const CUSTOMER: usize = 0;

/// A subject of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Person {
    pub cell: usize,
    pub subject: usize,
}

/// The request of one lease: a person takes a name, or gives it up.
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    pub person: Person,
    pub name: usize,
    pub creates: bool,
}

/// The row of a name in the table of claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Row {
    Free,
    Active {
        owner: Person,
    },
    Creating {
        lease: usize,
    },
    Destroying {
        lease: usize,
    },
    /// Held by the transfer.
    Transferring,
    KeptBack {
        by: Person,
        is_over: bool,
    },
    Reclaiming {
        lease: usize,
        by: Person,
        is_over: bool,
    },
}

/// A lease at the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lease {
    New,
    /// The begin has looked at the row, and will insert or reclaim the name.
    Seen {
        reclaims: bool,
    },
    Outstanding,
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    None,
    Preparing,
    Prepared,
    Switched,
    Finished,
}

/// The true owner of a name, whatever the rows say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Truth {
    Free,
    Owned(Person),
    /// Its owner has given it up, and it may be had only by that person until its time is over.
    GivenUp(Person),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    pub rows: [Row; NAMES],
    pub truth: [Truth; NAMES],
    pub leases: Vec<Lease>,
    pub stage: Stage,
    /// The spellings are one name, the first one.
    pub is_folded: bool,
    /// A name whose time is over, as the worker that purges has seen it.
    pub seen_over: Option<usize>,
    /// A person got a name that was kept back for somebody else.
    pub stranger: bool,
    /// A person got a name that has another owner.
    pub two_owners: bool,
    /// A lease could not be settled, because it did not hold its name.
    pub damaged: bool,
    /// The transfer was prepared although a lease of its customer was outstanding.
    pub left_behind: bool,
}

impl World {
    pub fn new(leases: usize) -> Self {
        let customer = Person { cell: OLD, subject: CUSTOMER };
        World {
            rows: [Row::Active { owner: customer }, Row::Free],
            truth: [Truth::Owned(customer), Truth::Free],
            leases: vec![Lease::New; leases],
            stage: Stage::None,
            is_folded: false,
            seen_over: None,
            stranger: false,
            two_owners: false,
            damaged: false,
            left_behind: false,
        }
    }

    /// Returns the name that a spelling stands for.
    pub fn name(&self, spelling: usize) -> usize {
        if self.is_folded { 0 } else { spelling }
    }
}
