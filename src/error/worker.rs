//! Messages of the background worker in the server's log.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::{PgLogLevel, PgSqlErrorCode as Code, function_name};

use super::claims_error::ClaimsError;
use super::text::Text;
use crate::pg::sqlstate;
use crate::pg::subtransaction::Caught;

/// The error that ended a pass.
pub struct Failure {
    pub sqlstate: String,
    pub message: String,
    detail: Option<String>,
}

impl From<ClaimsError> for Failure {
    fn from(error: ClaimsError) -> Self {
        let Text(code, message, detail, _) = error.text();
        Failure { sqlstate: sqlstate::text(code), message, detail }
    }
}

impl From<&Caught> for Failure {
    fn from(caught: &Caught) -> Self {
        Failure { sqlstate: sqlstate::text(caught.code()), message: caught.message().to_owned(), detail: None }
    }
}

/// A job of the worker has failed, and will be repeated.
pub fn log_failed_pass(job: &str, failure: &Failure) {
    let Failure { sqlstate, message, detail } = failure;
    let report = ErrorReport::new(Code::ERRCODE_WARNING, format!("{job} failed: {message}"), function_name!());
    let detail = detail.as_ref().map_or_else(String::new, |detail| format!(" {detail}"));
    report
        .set_detail(format!("SQLSTATE {sqlstate}.{detail}"))
        .set_hint("It is tried again by itself; claims.passes has the history.")
        .report(PgLogLevel::WARNING);
}

/// Why the background worker does nothing.
#[derive(PartialEq, Eq)]
pub enum Hindrance {
    /// The extension in the database is of another version than the library.
    OtherVersion(String),
    /// Its tables are not all in this database.
    DistributedTables,
}

/// The background worker waits until that has changed.
pub fn log_waiting(hindrance: &Hindrance) {
    let report = match hindrance {
        Hindrance::OtherVersion(version) => ErrorReport::new(
            Code::ERRCODE_WARNING,
            format!(
                "claims worker waits: the extension is of version {version}, the library of {}",
                env!("CARGO_PKG_VERSION")
            ),
            function_name!(),
        )
        .set_hint("Run ALTER EXTENSION claims UPDATE, or restart the server if that was done with a newer library."),
        Hindrance::DistributedTables => ErrorReport::new(
            Code::ERRCODE_WARNING,
            "claims worker waits: the tables of claims are not in this database",
            function_name!(),
        )
        .set_hint("Every function of claims says why, and what to do."),
    };
    report.report(PgLogLevel::WARNING);
}

/// The server has no free slot for another background worker.
pub fn warn_of_no_place_for_worker(database: &str) {
    let message = format!("claims has no worker for database \"{database}\"");
    ErrorReport::new(Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED, message, function_name!())
        .set_detail("The server has as many background workers as it may.")
        .set_hint("Raise max_worker_processes. It is tried again in a minute.")
        .report(PgLogLevel::WARNING);
}
