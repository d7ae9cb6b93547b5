//! Authorization errors.

use super::declare::errors;

errors! {
    /// The reason why a caller lacks a privilege.
    pub enum AccessError {
        NotTheCell { cell_id: i64, caller: String } => ERRCODE_INSUFFICIENT_PRIVILEGE: "permission denied for cell {cell_id}",
            detail "Role \"{caller}\" does not have the privileges of that cell's role.",
            hint "Call as the cell's role, or have an administrator run claims.register_cell() for this role.";
        /// An administrator named a cell that is not registered.
        UnknownCell { cell_id: i64 } => ERRCODE_NO_DATA_FOUND: "cell {cell_id} is not registered",
            hint "Register it with claims.register_cell().";
        NotAdmin { caller: String } => ERRCODE_INSUFFICIENT_PRIVILEGE: "permission denied: only administrators of claims may do this",
            detail "Role \"{caller}\" does not have the privileges of the extension's owner.",
            hint "Ask an administrator, or name one cell.";
        NotTheOwner { caller: String } => ERRCODE_INSUFFICIENT_PRIVILEGE:
            "permission denied: only the table's owner and administrators of claims may do this",
            detail "Role \"{caller}\" does not have the privileges of the table's owner.",
            hint "Ask the table's owner, or an administrator.";
        MayNotRead { table: String, caller: String } => ERRCODE_INSUFFICIENT_PRIVILEGE: "permission denied for table {table}",
            detail "Its columns are claimed. Role \"{caller}\" may not read all its rows, nor act for the cell of this database.",
            hint "Call as the cell's role, or as a role that may read the table.";
        /// The caller is code that PostgreSQL runs for another role.
        Restricted => ERRCODE_INSUFFICIENT_PRIVILEGE: "permission denied within a security-restricted operation",
            detail "PostgreSQL runs index expressions, materialized views and the like for a role that did not write them.",
            hint "Call the function directly.";
    }
}
