//! Errors of transfers from one cell to another.

use pgrx::PgSqlErrorCode as Code;
use uuid::Uuid;

use super::text::Text;

/// The reason why a call on a transfer fails.
#[derive(Debug)]
pub enum TransferError {
    /// The old and the new cell are the same.
    OneCell { cell_id: i64 },
    /// There is no transfer with this uuid.
    Unknown { transfer: Uuid },
    /// Another open transaction has locked the transfer or a table.
    Busy,
    /// The transfer was prepared with other cells or subjects.
    OtherRequest { transfer: Uuid },
    /// A lease has the uuid.
    LeaseUuid { transfer: Uuid },
    /// The uuid belongs to a transfer, and the call needs a lease.
    NotALease { transfer: Uuid },
    /// The transfer does not hold all claims of its subjects yet.
    NotPrepared { transfer: Uuid, skipped: i64 },
    /// The transfer was not switched, so its claims are at the old cell.
    NotSwitched { transfer: Uuid, state: &'static str },
    /// The transfer was switched, so its claims are at the new cell, and some may be ACTIVE there.
    Switched { transfer: Uuid, state: &'static str },
    /// The transfer is being finished: its claims become ACTIVE at cell `cell_id`.
    Finishing { transfer: Uuid, cell_id: i64 },
    /// The transfer is finished or canceled.
    Ended { transfer: Uuid, state: &'static str, cell_id: i64 },
    /// The transfer counts more claims than exist: somebody wrote to the tables.
    Damaged { transfer: Uuid, held: i64 },
}

impl TransferError {
    pub(super) fn text(self) -> Text {
        match self {
            TransferError::OneCell { cell_id } => Text(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "from_cell and to_cell must be two cells".into(),
                Some(format!("Both are {cell_id}.")),
                Some("Name the cell that the claims come from, and the one that they go to."),
            ),
            TransferError::Unknown { transfer } => Text(
                Code::ERRCODE_NO_DATA_FOUND,
                format!("transfer {transfer} is not known"),
                None,
                Some("The view claims.transfers has all of them."),
            ),
            TransferError::Busy => Text(
                Code::ERRCODE_LOCK_NOT_AVAILABLE,
                "another open transaction is at the transfer or its cells, or has locked a table of claims".into(),
                None,
                Some("Repeat the call in a moment; it goes on where the last one ended."),
            ),
            TransferError::OtherRequest { transfer } => Text(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("transfer {transfer} was prepared with other cells or subjects"),
                None,
                Some("Repeat a call with the same arguments, or prepare a new transfer under a new uuid."),
            ),
            TransferError::LeaseUuid { transfer } => Text(
                Code::ERRCODE_UNIQUE_VIOLATION,
                format!("{transfer} is the uuid of a lease"),
                None,
                Some("Prepare the transfer under a new uuid."),
            ),
            TransferError::NotALease { transfer } => Text(
                Code::ERRCODE_NO_DATA_FOUND,
                format!("{transfer} is not a lease but a transfer"),
                None,
                Some(
                    "The view claims.transfers shows it; claims.cancel_transfer() or claims.finish_transfer() ends it.",
                ),
            ),
            TransferError::NotPrepared { transfer, skipped } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("transfer {transfer} is not prepared"),
                Some(match skipped {
                    0 => "The last pass of prepare_transfer has not come to its end.".into(),
                    skipped => format!("The last pass of prepare_transfer has skipped {skipped} claims."),
                }),
                Some("Repeat claims.prepare_transfer() until it returns finished; what is skipped is held by leases."),
            ),
            TransferError::NotSwitched { transfer, state } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("transfer {transfer} has not been switched"),
                Some(format!("It is {state}.")),
                Some("Switch it with claims.switch_transfer(), or give it up with claims.cancel_transfer()."),
            ),
            TransferError::Switched { transfer, state } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("transfer {transfer} has been switched"),
                Some(format!("It is {state}.")),
                Some("While it is switched, claims.reverse_transfer() takes it back; then it can be cancelled."),
            ),
            TransferError::Finishing { transfer, cell_id } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("transfer {transfer} is being finished"),
                Some(format!("Its claims become ACTIVE claims of cell {cell_id}, which may change them.")),
                Some("Finish it with claims.finish_transfer(); another transfer can move the claims back."),
            ),
            TransferError::Ended { transfer, state, cell_id } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("transfer {transfer} has ended"),
                Some(format!("It is {state}; its claims were cell {cell_id}'s.")),
                Some("Prepare a new transfer under a new uuid."),
            ),
            TransferError::Damaged { transfer, held } => Text(
                Code::ERRCODE_DATA_CORRUPTED,
                format!("transfer {transfer} does not hold the claims that it counts"),
                Some(format!("It counts {held} claims that were not found.")),
                Some(
                    "Somebody wrote into the tables of claims. Run claims.check() to see the damage; the transfer is left as it is.",
                ),
            ),
        }
    }
}
