//! Errors and warnings of verification.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::{PgLogLevel, PgSqlErrorCode as Code, function_name};

use uuid::Uuid;

use super::text::Text;

/// The reason why verification fails.
#[derive(Debug)]
pub enum VerificationError {
    /// A range has more claims than one comparison may have.
    RangeTooLarge { limit: usize },
    /// No column of this database is claimed with the source type.
    NothingClaimed { source_type: String },
    /// The isolation level is not READ COMMITTED.
    OldSnapshot,
    /// Another open transaction is beginning the same verification.
    BeingBegun,
    /// No shared verification has this id.
    UnknownPass { pass: Uuid },
}

impl VerificationError {
    pub(super) fn text(self) -> Text {
        match self {
            VerificationError::RangeTooLarge { limit } => Text(
                Code::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
                "range has too many claims".into(),
                Some(format!("At most {limit} claims can be compared in one call.")),
                Some("Narrow the range with source_id_gt and source_id_lte."),
            ),
            VerificationError::NothingClaimed { source_type } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("no column is claimed with source type \"{source_type}\""),
                Some("Verification would take every claim of that type as extra.".into()),
                Some("Declare the columns with claims.claim_attribute(), or name another source type."),
            ),
            VerificationError::OldSnapshot => Text(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                "verification needs a READ COMMITTED transaction".into(),
                Some("Another isolation level would show it rows as they were when the transaction began.".into()),
                Some("Begin the transaction with ISOLATION LEVEL READ COMMITTED."),
            ),
            VerificationError::BeingBegun => Text(
                Code::ERRCODE_LOCK_NOT_AVAILABLE,
                "verification is being begun by another open transaction".into(),
                None,
                Some("Repeat the call when that transaction has ended."),
            ),
            VerificationError::UnknownPass { pass } => Text(
                Code::ERRCODE_NO_DATA_FOUND,
                format!("verification {pass} does not exist"),
                Some("A shared verification is forgotten a day after its end.".into()),
                Some("Begin one with claims.begin_verification()."),
            ),
        }
    }
}

/// Warns the client and the log about rows that cannot have claims.
pub fn warn_of_rows(source_type: &str, unclaimable: i64, doubles: i64) {
    let rows = if unclaimable + doubles == 1 { "1 row".to_owned() } else { format!("{} rows", unclaimable + doubles) };
    ErrorReport::new(
        Code::ERRCODE_WARNING,
        format!("{rows} of source type \"{source_type}\" cannot have the claims that they call for"),
        function_name!(),
    )
    .set_detail(format!(
        "{unclaimable} have a value that is empty or longer than 1024 characters, or a subject or source whose key is null, empty or longer than 128 characters; {doubles} have a value that another row has, too."
    ))
    .set_hint("Change those rows, or leave them out by the condition of the claimed attribute.")
    .report(PgLogLevel::WARNING);
}

/// Warns the client and the log that a worker has lost its range.
pub fn warn_of_lost_range(worker: &str) {
    ErrorReport::new(
        Code::ERRCODE_WARNING,
        format!("worker \"{worker}\" has lost the range that it was verifying"),
        function_name!(),
    )
    .set_detail("Its hold had expired, or another session uses the same name. What it did there is done again by whoever has the range now.")
    .set_hint("If that comes back, give a longer hold_for; give every session a name of its own.")
    .report(PgLogLevel::WARNING);
}
