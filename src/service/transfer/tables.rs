//! Transfers and the claims that they hold: their rows, and the steps that change them.

use std::collections::BTreeSet;

use claims_model::attribution::Attribution;
use claims_model::cursor::{ClaimCursor, Cursor, SubjectCursor};
use claims_model::transfer::{Seal, TransferState};
use uuid::Uuid;

use crate::kernel::error::ClaimsError;
use crate::kernel::tables::{Door, Local};
use crate::service::claims::OwnedName;
use pg::query::{arguments, record};
use pg::spi::Connection;
use pg::xact;

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
    pub marking_after: Option<PassPosition>,
    pub releasing_after: Option<PassPosition>,
    pub was_reversed: bool,
    /// Whether it moves all claims of the cell.
    pub is_whole: bool,
    /// Whether other sessions may not see it yet, or not as it is, because this transaction has written it.
    pub is_own: bool,
    /// The modes under which the pass over a whole cell began, if no claim of the cell can be missing in it.
    pub sealed_by: Option<Seal>,
}

record! {
    /// A transfer whose row is locked.
    pub struct LockedTransfer {
        from_cell: i64,
        to_cell: i64,
        cell_id: i64,
        state: String,
        held: i64,
        skipped: i64,
        request_digest: Vec<u8>,
        marking_after: Option<String>,
        releasing_after: Option<String>,
        was_reversed: bool,
        is_whole: bool,
        sealed_by: Option<String>,
        xmin: i64,
    }
}

impl LockedTransfer {
    pub fn of(self, uuid: Uuid) -> Transfer {
        let position = |text: Option<String>| text.and_then(|text| PassPosition::decode(&text));
        Transfer {
            uuid,
            from_cell: self.from_cell,
            to_cell: self.to_cell,
            cell_id: self.cell_id,
            // A CHECK constraint admits no other states.
            state: TransferState::named(&self.state).unwrap_or(TransferState::Cancelled),
            held: self.held,
            skipped: self.skipped,
            digest: self.request_digest,
            marking_after: position(self.marking_after),
            releasing_after: position(self.releasing_after),
            was_reversed: self.was_reversed,
            is_whole: self.is_whole,
            sealed_by: self.sealed_by.map(Seal::decode),
            is_own: u32::try_from(self.xmin).is_ok_and(xact::is_own),
        }
    }
}

/// Where a pass over the claims of a cell continues: after a claim, in the order in which the pass reads them.
#[derive(Debug, Clone)]
pub enum PassPosition {
    BySource(ClaimCursor),
    BySubject(SubjectCursor),
}

impl PassPosition {
    fn decode(text: &str) -> Option<Self> {
        let by_source = ClaimCursor::decode(text).map(PassPosition::BySource);
        by_source.or_else(|_| SubjectCursor::decode(text).map(PassPosition::BySubject)).ok()
    }

    /// Returns the claim after which a pass in the order of sources continues.
    pub fn source(&self) -> Option<&ClaimCursor> {
        match self {
            PassPosition::BySource(cursor) => Some(cursor),
            PassPosition::BySubject(_) => None,
        }
    }

    pub fn encode(&self) -> String {
        match self {
            PassPosition::BySource(cursor) => cursor.encode(),
            PassPosition::BySubject(cursor) => cursor.encode(),
        }
    }
}

pub struct TransferStep {
    /// The number of the transfer's claims that it has found.
    pub wanted: i64,
    /// The number of claims that it has changed.
    pub changed: i64,
    /// The position at which the next step continues. `None` if the cell has no more claims.
    pub after: Option<PassPosition>,
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

arguments! {
    /// The claims that a step of a transfer reads by source: those stored under a cell after a position.
    pub struct StepStart<'s> {
        transfer: Uuid,
        from_cell: i64,
        source_type: i32,
        source_id: &'s str,
        bucket_type: i32,
        bucket_value: &'s str,
        most: i64,
    }
}

impl<'s> StepStart<'s> {
    /// Returns the start of a step after a position, or before every claim.
    pub fn of(transfer: &Transfer, after: Option<&'s ClaimCursor>) -> Self {
        let (source_type, source_id, bucket_type, bucket_value) = after.map_or((i32::MIN, "", i32::MIN, ""), |after| {
            (after.source_type, &*after.source_id, after.bucket_type, &*after.bucket_value)
        });
        let Transfer { uuid, from_cell, .. } = *transfer;
        StepStart { transfer: uuid, from_cell, source_type, source_id, bucket_type, bucket_value, most: STEP }
    }
}

arguments! {
    /// The claims that a step of a transfer reads by subject: those of the transfer's subjects after a position.
    pub struct SubjectStepStart<'s> {
        transfer: Uuid,
        from_cell: i64,
        subject_type: i32,
        subject_id: &'s str,
        bucket_type: i32,
        bucket_value: &'s str,
        most: i64,
    }
}

impl<'s> SubjectStepStart<'s> {
    /// Returns the start of a step after a position, or before every claim.
    pub fn of(transfer: &Transfer, after: Option<&'s SubjectCursor>) -> Self {
        let (subject_type, subject_id, bucket_type, bucket_value) = after
            .map_or((i32::MIN, "", i32::MIN, ""), |after| {
                (after.subject_type, &*after.subject_id, after.bucket_type, &*after.bucket_value)
            });
        let Transfer { uuid, from_cell, .. } = *transfer;
        SubjectStepStart { transfer: uuid, from_cell, subject_type, subject_id, bucket_type, bucket_value, most: STEP }
    }
}

/// Transfers, and the claims that they hold.
pub trait TransferTables: Sync {
    /// Locks the row of a transfer until the transaction ends, without waiting. Returns `None` if there is none.
    fn lock_transfer(&self, connection: &Connection, uuid: Uuid) -> Option<Transfer>;

    /// Locks the rows of cells against being removed, without waiting. Returns how many there are.
    fn lock_cells(&self, connection: &Connection, cells: [i64; 2]) -> usize;

    /// Runs `write`, which writes to the tables of transfers.
    fn write_transfers(&self, write: &mut dyn FnMut());

    /// Runs one step of marking the claims of the transfer's subjects: of a new pass, or of one that has come to a position. Does not wait for
    /// other transactions.
    fn mark_held(&self, connection: &Connection, transfer: &Transfer, after: Option<&PassPosition>) -> TransferStep;

    /// Runs one step of making the claims that the transfer holds ACTIVE, at the cell where they are.
    fn release_held(&self, connection: &Connection, transfer: &Transfer, after: Option<&PassPosition>) -> TransferStep;

    /// Returns how many names that are kept back leases of the transfer's cell reclaim for its subjects: claims that it does not see yet.
    fn count_reclaims(&self, connection: &Connection, transfer: &Transfer) -> i64;

    /// Returns the transactions of other sessions that have changed claims or modes, on all nodes.
    fn open_writers(&self, connection: &Connection, cell_id: i64) -> Result<OpenWriters, ClaimsError>;

    /// Records in the change feed that all claims of a transfer have moved from one cell to the other.
    fn tell_moved(&self, connection: &Connection, transfer: &Transfer, from_and_to: [i64; 2], attribution: Attribution);

    /// Passes the names of all claims that a transfer holds to `each`, in portions of at most `size`.
    fn each_held(&self, connection: &Connection, transfer: &Transfer, size: usize, each: &mut dyn FnMut(&[OwnedName]));
}

/// Where the transfers are.
pub static TRANSFER_TABLES: Door<dyn TransferTables> = Door::local(&Local);
