//! Rows of leases, and statements on them that work for local and distributed tables.

use std::ffi::CStr;
use std::time::Instant;

use uuid::Uuid;

use crate::kernel::error::{ClaimsError, TablesError, known_or_raised};
use claims_model::attribution::Attribution;
use pg::clock::Moment;
use pg::index::{KeyPart, KeyValue};
use pg::jsonb::Jsonb;
use pg::query::{query, record};
use pg::spi::{Connection, View};
use pg::xid8::Xid8;
use pg::{in_flight, lock};

/// A lease to begin.
#[derive(Clone)]
pub struct NewLease {
    pub uuid: Uuid,
    pub cell_id: i64,
    pub made_at: Moment,
    pub payload: Jsonb,
    pub digest: [u8; 32],
    pub cell_xid: Option<Xid8>,
    /// Position of the batch in begin_first's alternatives, from 1.
    pub chosen: Option<u8>,
    pub attribution: Attribution,
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
        pub context: Option<String>,
        pub cell_role: Option<String>,
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
        pub context: Option<String>,
        pub cell_role: Option<String>,
    }
}

record! {
    /// The state of a lease: outstanding, or the outcome.
    struct StateRow { uuid: Uuid, creator_id: i64, outcome: Option<String>, request_digest: Option<Vec<u8>> }
}

query! {
    fn states(leases: &[Uuid]; view) -> Vec<StateRow> = [view Anywhere]
        "SELECT uuid, creator_id, NULL::text AS outcome, request_digest FROM claims.claim_leases WHERE uuid = ANY (:leases)
         UNION ALL
         SELECT lease_uuid, creator_id, outcome, request_digest FROM claims.lease_outcomes WHERE lease_uuid = ANY (:leases)";
    /// Inserts the key of a lease that never began, to fence it, as a row that must not stay. Returns `false` if the lease is outstanding.
    /// A fence passes through both unique keys, that of the outstanding lease and that of the outcome. So it conflicts with every begin of
    /// the same uuid, whether that is open, committed, or yet to come.
    pub fn pass_key(lease: Uuid, cell_id: i64) -> bool = [Statement OneShard]
        "INSERT INTO claims.claim_leases (uuid, creator_id, payload) VALUES (:lease, :cell_id, '{}') ON CONFLICT DO NOTHING";
}

/// Returns the states of leases, as of `view`.
pub fn existing(connection: &Connection, leases: &[Uuid], view: View) -> Vec<ExistingLease> {
    // Where the tables are distributed, all shards would be asked for none.
    if leases.is_empty() {
        return Vec::new();
    }
    let outcome = |name: String| if name == "committed" { Ending::Commit } else { Ending::Rollback };
    let existing = |row: StateRow| ExistingLease {
        uuid: row.uuid,
        cell_id: row.creator_id,
        outcome: row.outcome.map(outcome),
        digest: row.request_digest,
    };
    states(connection, leases, view).into_iter().map(existing).collect()
}

/// Raises an error at once if the call may not wait and somebody has locked one of the tables as a whole. The lock timeouts for
/// relation extension would be spent in vain.
pub fn refuse_locked_tables(deadline: Instant) -> Result<(), ClaimsError> {
    const WRITTEN: [&CStr; 3] = [c"claim_leases", c"claims", c"lease_outcomes"];
    if deadline > Instant::now() || lock::for_writing(&WRITTEN) { Ok(()) } else { Err(TablesError::Locked.into()) }
}

/// Returns whether another open transaction is beginning, fencing or settling a lease, from its row in a table: `claim_leases` or
/// one of its shards.
pub fn is_in_flight_in(table: &CStr, lease: Uuid) -> bool {
    let key = [KeyPart { column: c"uuid", value: KeyValue::Uuid(lease) }];
    known_or_raised(in_flight::is_in_flight(table, &key), "claims.claim_leases (uuid)")
}
