//! Rows of leases, independent of where they are stored.

use uuid::Uuid;

use pg::clock::Moment;
use pg::jsonb::Jsonb;
use pg::query::record;
use pg::xid8::Xid8;

/// A lease to begin.
pub struct NewLease {
    pub uuid: Uuid,
    pub cell_id: i64,
    pub made_at: Moment,
    pub payload: Jsonb,
    pub digest: [u8; 32],
    pub cell_xid: Option<Xid8>,
    /// Position of the batch in begin_first's alternatives, from 1.
    pub chosen: Option<u8>,
}

impl NewLease {
    /// Returns the digest, followed by the position of the chosen batch, which must be stored for as long as the digest.
    pub fn stored_digest(&self) -> Vec<u8> {
        self.digest.iter().copied().chain(self.chosen).collect()
    }
}

/// The way in which a lease ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Commit,
    Rollback,
}

impl Ending {
    /// Returns the name of the outcome, as it is stored and returned.
    pub fn outcome(self) -> &'static str {
        match self {
            Ending::Commit => "committed",
            Ending::Rollback => "rolled_back",
        }
    }
}

/// The way in which leases of a cell end.
#[derive(Debug, Clone, Copy)]
pub struct LeaseEnding {
    pub cell_id: i64,
    pub ending: Ending,
    pub at: Moment,
    /// Whether the call waits for other transactions, up to the lock timeout.
    pub may_wait: bool,
}

record! {
    /// A lease that this transaction has ended, and whose claims are not settled yet.
    pub struct EndedRow {
        pub uuid: Uuid,
        pub creates: Option<Jsonb>,
        pub destroys: Option<Jsonb>,
    }
}

/// The stored state of a lease, outstanding or ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExistingLease {
    pub uuid: Uuid,
    pub cell_id: i64,
    /// `None` for an outstanding lease.
    pub outcome: Option<Ending>,
    pub digest: Option<Vec<u8>>,
}

impl ExistingLease {
    /// Returns whether the same request has begun it.
    pub fn is_of(&self, lease: &NewLease) -> bool {
        let known = self.digest.as_deref().unwrap_or_default();
        known.get(..32) == Some(lease.digest.as_slice()) && (known.len() > 32) == lease.chosen.is_some()
    }

    /// Returns the position of the chosen batch in begin_first's alternatives.
    pub fn chosen(&self) -> Option<u8> {
        self.digest.as_deref()?.get(32).copied()
    }

    pub fn outcome_name(&self) -> &'static str {
        self.outcome.map_or("outstanding", Ending::outcome)
    }
}

record! {
    /// An outstanding lease as it is stored.
    pub struct ListedLease {
        pub uuid: Uuid,
        pub creator_id: i64,
        pub created_at: Moment,
        pub updated_at: Moment,
        pub payload: String,
        pub cell_xid: Option<Xid8>,
    }
}
