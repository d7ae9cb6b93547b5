//! Errors and notices of transfers from one cell to another.

use pgrx::PgLogLevel;
use uuid::Uuid;

use crate::kernel::error::{errors, text};

errors! {
    /// The reason why a call on a transfer fails.
    pub enum TransferError {
        OneCell { cell_id: i64 } => ERRCODE_INVALID_PARAMETER_VALUE: "from_cell and to_cell must be two cells",
            detail "Both are {cell_id}.",
            hint "Name the cell that the claims come from, and the one that they go to.";
        Unknown { transfer: Uuid } => ERRCODE_NO_DATA_FOUND: "transfer {transfer} is not known",
            hint "The view claims.transfers has all of them.";
        Busy => ERRCODE_LOCK_NOT_AVAILABLE: "another open transaction is at the transfer or its cells, or has locked a table of claims",
            hint "Repeat the call in a moment; it continues where the last one ended.";
        OtherRequest { transfer: Uuid } => ERRCODE_INVALID_PARAMETER_VALUE: "transfer {transfer} was prepared with other cells or subjects",
            hint "Repeat a call with the same arguments, or prepare a new transfer under a new uuid.";
        LeaseUuid { transfer: Uuid } => ERRCODE_UNIQUE_VIOLATION: "{transfer} is the uuid of a lease",
            hint "Prepare the transfer under a new uuid.";
        NotPrepared { transfer: Uuid, skipped: i64 } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "transfer {transfer} is not prepared",
            detail ("The last pass of prepare_transfer has {}.", match skipped {
                0 => "not come to its end".to_owned(),
                skipped => format!("skipped {skipped} claims"),
            }),
            hint "Repeat claims.prepare_transfer() until it returns finished; what is skipped is held by leases.";
        /// The transfer moves all claims of the cell, and more can be made.
        CellOpen { transfer: Uuid, cell_id: i64, mode: &'static str } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
            "cell {cell_id} is not in mode settle_only",
            detail "Its mode is {mode}: it can make claims while transfer {transfer} moves all that it has.",
            hint "Call claims.set_mode('settle_only', 'why', {cell_id}), \
                then repeat claims.prepare_transfer() until it returns finished.";
        /// The transfer moves all claims of the cell, which may have made some meanwhile.
        ModeChanged { transfer: Uuid, cell_id: i64 } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
            "the mode of cell {cell_id} was set after transfer {transfer} was prepared",
            detail "The transfer moves all claims of the cell, which may have made more of them.",
            hint "Repeat claims.prepare_transfer() until it returns finished.";
        /// A transfer moves all claims of the cell, so nothing else may bring it claims or change how its names are compared.
        CellMoves { transfer: Uuid, cell_id: i64 } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "cell {cell_id} is being moved as a whole",
            detail "Transfer {transfer} moves all its claims, and has not ended.",
            hint "Finish it with claims.finish_transfer(), or give it up with claims.cancel_transfer().";
        OldSnapshot => ERRCODE_FEATURE_NOT_SUPPORTED: "a whole cell cannot be transferred under REPEATABLE READ or SERIALIZABLE",
            detail "The transaction does not see the claims that were made after its snapshot.",
            hint "Begin a READ COMMITTED transaction.";
        /// The claims of the transfer are at the old cell.
        NotSwitched { transfer: Uuid, state: &'static str } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
            "transfer {transfer} has not been switched",
            detail "It is {state}.",
            hint "Switch it with claims.switch_transfer(), or give it up with claims.cancel_transfer().";
        /// The claims of the transfer are at the new cell, and some may be ACTIVE there.
        Switched { transfer: Uuid, state: &'static str } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
            "transfer {transfer} has been switched",
            detail "It is {state}.",
            hint "While it is switched, claims.reverse_transfer() takes it back; then it can be cancelled.";
        Finishing { transfer: Uuid, cell_id: i64 } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "transfer {transfer} is being finished",
            detail "Its claims become ACTIVE claims of cell {cell_id}, which may change them.",
            hint "Finish it with claims.finish_transfer(); another transfer can move the claims back.";
        /// The transfer is finished or canceled.
        Ended { transfer: Uuid, state: &'static str, cell_id: i64 } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
            "transfer {transfer} has ended",
            detail "It is {state}; its claims were cell {cell_id}'s.",
            hint "Prepare a new transfer under a new uuid.";
        Damaged { transfer: Uuid, held: i64 } => ERRCODE_DATA_CORRUPTED: "transfer {transfer} does not hold the claims that it counts",
            detail "It counts {held} claims that were not found.",
            hint "Somebody wrote into the tables of claims. \
                Run claims.check() to see the damage; the transfer is left as it is.";
    }
}

/// Notifies the client that more calls are needed before all claims of a cell are marked.
pub fn notice_of_unfinished_cell(transfer: Uuid, cell_id: i64, reason: String) {
    text!(ERRCODE_SUCCESSFUL_COMPLETION: "transfer {transfer} may not have all claims of cell {cell_id} yet",
        detail { reason },
        hint "Repeat claims.prepare_transfer() until it returns finished, at last while the cell is in mode settle_only.")
    .send(PgLogLevel::NOTICE);
}
