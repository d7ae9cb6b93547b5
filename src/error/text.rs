//! What Postgres is told of an error, and texts that several kinds have in common.

use pgrx::PgSqlErrorCode as Code;

/// SQLSTATE, message, DETAIL, HINT.
pub(super) struct Text(pub Code, pub String, pub Option<String>, pub Option<&'static str>);

pub(super) fn stale(what: String, subject: &str) -> Text {
    Text(
        Code::ERRCODE_T_R_SERIALIZATION_FAILURE,
        format!("could not serialize access to {what} due to concurrent update"),
        Some(format!("{subject} changed after this transaction took its snapshot.")),
        Some("Repeat the transaction."),
    )
}
