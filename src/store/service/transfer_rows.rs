//! Rows of transfers, and the steps in which their claims are changed, wherever they are stored.

use claims_model::cursor::{ClaimCursor, Cursor};
use claims_model::transfer::TransferState;
use uuid::Uuid;

use crate::pg::spi::{Row, Value};
use crate::pg::uuid::pg_uuid;

/// What there is to know of a transfer whose row is locked.
macro_rules! locked_columns {
    () => {
        "t.from_cell, t.to_cell, t.cell_id, t.state, t.held, t.skipped, t.request_digest, t.marking_after, t.releasing_after,
         t.reversed_at IS NOT NULL"
    };
}
pub(super) use locked_columns;

/// Claims that one step looks at.
pub(super) const STEP: i64 = 10_000;

/// A transfer whose row this transaction has locked.
pub struct Transfer {
    pub uuid: Uuid,
    pub from_cell: i64,
    pub to_cell: i64,
    /// Where its claims are: what every read says.
    pub cell_id: i64,
    pub state: TransferState,
    pub held: i64,
    pub skipped: i64,
    pub digest: Vec<u8>,
    /// Where the pass of marking, or of releasing, goes on.
    pub marking_after: Option<ClaimCursor>,
    pub releasing_after: Option<ClaimCursor>,
    pub was_reversed: bool,
}

/// A row of `locked_columns!()`.
pub(super) fn locked(uuid: Uuid, row: &Row) -> Transfer {
    let position = |text: Option<String>| text.and_then(|text| ClaimCursor::decode(&text).ok());
    Transfer {
        uuid,
        from_cell: row.must(1),
        to_cell: row.must(2),
        cell_id: row.must(3),
        // A CHECK keeps others out.
        state: TransferState::named(&row.must::<String>(4)).unwrap_or(TransferState::Cancelled),
        held: row.must(5),
        skipped: row.must(6),
        digest: row.must(7),
        marking_after: position(row.get(8)),
        releasing_after: position(row.get(9)),
        was_reversed: row.must(10),
    }
}

/// What a step has come to.
pub struct TransferStep {
    /// Claims of the transfer's that it has come upon, and how many of them it has changed.
    pub wanted: i64,
    pub changed: i64,
    /// Where the next one goes on; `None`: the cell has no more claims.
    pub after: Option<ClaimCursor>,
}

/// Before every claim.
fn start() -> ClaimCursor {
    ClaimCursor { source_type: i32::MIN, source_id: String::new(), bucket_type: i32::MIN, bucket_value: String::new() }
}

/// Transfer, cell, position and length of a step.
pub(super) fn step_values(transfer: &Transfer, after: Option<&ClaimCursor>) -> [Value; 7] {
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
