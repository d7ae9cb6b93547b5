//! Rows of transfers, and the steps that change their claims, independent of where they are stored.

use std::collections::BTreeSet;

use claims_model::cursor::{ClaimCursor, Cursor};
use claims_model::transfer::{Seal, TransferState};
use uuid::Uuid;

use pg::spi::{Row, Value};
use pg::uuid::pg_uuid;
use pg::xact;

/// The columns of a transfer whose row is locked.
macro_rules! locked_columns {
    () => {
        "t.from_cell, t.to_cell, t.cell_id, t.state, t.held, t.skipped, t.request_digest, t.marking_after, t.releasing_after,
         t.reversed_at IS NOT NULL, t.subjects IS NULL, t.sealed_by, t.xmin::text::bigint"
    };
}
pub(in crate::tables) use locked_columns;

/// Number of claims that one step reads.
pub const STEP: i64 = 10_000;

/// A transfer whose row this transaction has locked.
pub struct Transfer {
    pub uuid: Uuid,
    pub from_cell: i64,
    pub to_cell: i64,
    /// The cell that its claims are at, which every read returns.
    pub cell_id: i64,
    pub state: TransferState,
    pub held: i64,
    pub skipped: i64,
    pub digest: Vec<u8>,
    /// The positions at which the pass of marking, or of releasing, continues.
    pub marking_after: Option<ClaimCursor>,
    pub releasing_after: Option<ClaimCursor>,
    pub was_reversed: bool,
    /// Whether it moves all claims of the cell.
    pub is_whole: bool,
    /// Whether other sessions may not see it yet, or not as it is, because this transaction has written it.
    pub is_own: bool,
    /// The modes under which the pass over a whole cell began, if no claim of the cell can be missing in it.
    pub sealed_by: Option<Seal>,
}

/// Reads a row of `locked_columns!()`.
pub fn locked(uuid: Uuid, row: &Row) -> Transfer {
    let position = |text: Option<String>| text.and_then(|text| ClaimCursor::decode(&text).ok());
    Transfer {
        uuid,
        from_cell: row.must(1),
        to_cell: row.must(2),
        cell_id: row.must(3),
        // A CHECK constraint admits no other states.
        state: TransferState::named(&row.must::<String>(4)).unwrap_or(TransferState::Cancelled),
        held: row.must(5),
        skipped: row.must(6),
        digest: row.must(7),
        marking_after: position(row.get(8)),
        releasing_after: position(row.get(9)),
        was_reversed: row.must(10),
        is_whole: row.must(11),
        sealed_by: row.get(12).map(Seal::decode),
        is_own: u32::try_from(row.must::<i64>(13)).is_ok_and(xact::is_own),
    }
}

pub struct TransferStep {
    /// The number of the transfer's claims that it has found.
    pub wanted: i64,
    /// The number of claims that it has changed.
    pub changed: i64,
    /// The position at which the next step continues. `None` if the cell has no more claims.
    pub after: Option<ClaimCursor>,
}

/// The transactions that have written claims or modes and have not ended.
#[derive(Debug, Default)]
pub struct OpenWriters {
    /// Their names, each valid on one node.
    pub transactions: BTreeSet<String>,
    /// Whether one of them changes a mode. It may have committed, but other sessions may not know yet.
    pub change_modes: bool,
    /// Whether this transaction changes a mode, which no other session sees yet.
    pub own_modes: bool,
    /// The modes on the other nodes.
    pub seals: Vec<Seal>,
}

/// Selects the transactions that have locked claims, leases or modes for writing: their names, whether they change modes, and
/// whether it is this session's. On distributed tables also those that write to shards.
macro_rules! writers {
    () => {
        "SELECT l.virtualtransaction AS name, bool_or(r.relname LIKE 'mode%') AS changes_modes,
                bool_or(l.pid IS NOT DISTINCT FROM pg_catalog.pg_backend_pid()) AS is_own
           FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_class r ON r.oid = l.relation
          WHERE l.locktype = 'relation' AND l.granted
            AND l.mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
            AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
            AND r.relnamespace = 'claims'::regnamespace AND r.relname ~ '^(claims|claim_leases|mode_settings)(_[0-9]+)?$'
          GROUP BY 1"
    };
}
pub(in crate::tables) use writers;

/// Returns a position before every claim.
fn start() -> ClaimCursor {
    ClaimCursor { source_type: i32::MIN, source_id: String::new(), bucket_type: i32::MIN, bucket_value: String::new() }
}

/// Returns transfer, cell, position and length of a step.
pub fn step_values(transfer: &Transfer, after: Option<&ClaimCursor>) -> [Value; 7] {
    let start = start();
    let after = after.unwrap_or(&start);
    [
        pg_uuid(transfer.uuid).into(),
        transfer.from_cell.into(),
        after.source_type.into(),
        after.source_id.as_str().into(),
        after.bucket_type.into(),
        after.bucket_value.as_str().into(),
        STEP.into(),
    ]
}
