//! Rows of leases: what there is to say of them wherever they are stored.

use uuid::Uuid;

use crate::pg::clock::Moment;
use crate::pg::jsonb::Jsonb;
use crate::pg::spi::{Connection, Value, View};
use crate::pg::statement::shard_statement;
use crate::pg::uuid::pg_uuid;
use crate::pg::xid8::Xid8;

shard_statement! {
    /// Fences a lease that never began. It passes through both unique keys, the outstanding lease's and the outcome's:
    /// so it meets every begin of the same uuid, whether that is still open, committed, or yet to come.
    PASS_KEY(UUIDOID, INT8OID) =
        "INSERT INTO claims.claim_leases (uuid, creator_id, payload) VALUES ($1, $2, '{}') ON CONFLICT DO NOTHING";
}

/// A lease that is about to be.
pub struct NewLease {
    pub uuid: Uuid,
    pub cell_id: i64,
    pub made_at: Moment,
    pub payload: Jsonb,
    pub digest: [u8; 32],
    pub cell_xid: Option<Xid8>,
    /// Which of several batches it is of, counted from 1.
    pub chosen: Option<u8>,
}

impl NewLease {
    /// uuid, cell and time.
    pub(super) fn key_values(&self) -> [Value; 3] {
        [pg_uuid(self.uuid).into(), self.cell_id.into(), self.made_at.into()]
    }

    /// The whole row.
    pub(super) fn values(&self) -> [Value; 6] {
        let [uuid, cell_id, made_at] = self.key_values();
        let payload = self.payload.clone();
        [uuid, cell_id, made_at, payload.into(), self.stored_digest().as_slice().into(), self.cell_xid.into()]
    }

    /// The digest, and behind it which batch was chosen: it must be known for as long as the digest is.
    fn stored_digest(&self) -> Vec<u8> {
        self.digest.iter().copied().chain(self.chosen).collect()
    }
}

/// How a lease ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Commit,
    Rollback,
}

impl Ending {
    /// As outcomes are stored and told.
    pub fn outcome(self) -> &'static str {
        match self {
            Ending::Commit => "committed",
            Ending::Rollback => "rolled_back",
        }
    }
}

/// A lease that this transaction has ended; its claims are still to be settled.
pub struct EndedRow {
    pub uuid: Uuid,
    pub creates: Option<Jsonb>,
    pub destroys: Option<Jsonb>,
}

/// Passes through the key of an outstanding lease, leaving a row that is not to stay. `false`: it is outstanding.
pub fn pass_key(connection: &Connection, lease: Uuid, cell_id: i64) -> bool {
    connection.run(&PASS_KEY, View::Statement, [pg_uuid(lease).into(), cell_id.into()]).count() == 1
}
