//! Authorization errors.

use pgrx::PgSqlErrorCode as Code;

use super::text::Text;

/// The reason why a caller lacks a privilege.
#[derive(Debug)]
pub enum AccessError {
    /// The caller may not act for the cell.
    NotTheCell { cell_id: i64, caller: String },
    /// An administrator named a cell that is not registered.
    UnknownCell { cell_id: i64 },
    /// The caller is no administrator.
    NotAdmin { caller: String },
    /// The caller neither owns the table nor is an administrator.
    NotTheOwner { caller: String },
    /// The caller is code that PostgreSQL runs for another role.
    Restricted,
}

impl AccessError {
    pub(super) fn text(self) -> Text {
        match self {
            AccessError::UnknownCell { cell_id } => Text(
                Code::ERRCODE_NO_DATA_FOUND,
                format!("cell {cell_id} is not registered"),
                None,
                Some("Register it with claims.register_cell()."),
            ),
            AccessError::NotTheCell { cell_id, caller } => Text(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("permission denied for cell {cell_id}"),
                Some(format!("Role \"{caller}\" does not have the privileges of that cell's role.")),
                Some("Call as the cell's role, or have an administrator run claims.register_cell() for this role."),
            ),
            AccessError::NotAdmin { caller } => Text(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                "permission denied: only administrators of claims may do this".into(),
                Some(format!("Role \"{caller}\" does not have the privileges of the extension's owner.")),
                Some("Ask an administrator, or name one cell."),
            ),
            AccessError::NotTheOwner { caller } => Text(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                "permission denied: only the table's owner and administrators of claims may do this".into(),
                Some(format!("Role \"{caller}\" does not have the privileges of the table's owner.")),
                Some("Ask the table's owner, or an administrator."),
            ),
            AccessError::Restricted => Text(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                "permission denied within a security-restricted operation".into(),
                Some(
                    "PostgreSQL runs index expressions, materialized views and the like for a role that did not write them."
                        .into(),
                ),
                Some("Call the function directly."),
            ),
        }
    }
}
