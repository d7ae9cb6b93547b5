//! The parts of an error for PostgreSQL, and texts that several kinds of errors share.

use pgrx::PgSqlErrorCode as Code;

/// The SQLSTATE, message, DETAIL and HINT of an error.
pub(super) struct Text(pub Code, pub String, pub Option<String>, pub Option<&'static str>);

pub(super) fn stale(what: String, subject: &str) -> Text {
    Text(
        Code::ERRCODE_T_R_SERIALIZATION_FAILURE,
        format!("could not serialize access to {what} due to concurrent update"),
        Some(format!("{subject} changed after this transaction took its snapshot.")),
        Some("Repeat the transaction."),
    )
}
