//! Errors of erasing names.

use crate::kernel::error::errors;

errors! {
    /// The reason why a name cannot be erased.
    pub enum ErasureError {
        Owned { cell_id: i64 } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "name cannot be erased: it has an owner",
            detail "Cell {cell_id} has it.",
            hint "Rename or delete the row that has the name first, in its cell.";
        Held { cell_id: i64 } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "name cannot be erased: a lease or a transfer holds it",
            detail "It is one of cell {cell_id}.",
            hint "Repeat the call when it has ended.";
        Reserved => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "name cannot be erased: it is reserved",
            detail "claims.reserved_names has it.",
            hint "Call claims.unreserve_names() first.";
        InFlight => ERRCODE_LOCK_NOT_AVAILABLE: "name cannot be erased: another open transaction is claiming it",
            hint "Repeat the call in a moment.";
        HasRows { table: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "name cannot be erased: a row of this cell has it",
            detail "The row is in table {table}.",
            hint "Rename or delete the row first.";
    }
}
