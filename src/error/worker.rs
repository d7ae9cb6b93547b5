//! Messages of the background worker in the server's log.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::{PgLogLevel, PgSqlErrorCode as Code, function_name};

use super::cell::CellError;
use super::claims_error::ClaimsError;
use super::text::Text;
use crate::pg::libpq::RemoteError;
use crate::pg::sqlstate;
use crate::pg::subtransaction::Caught;

/// The error that ended a pass.
pub struct Failure {
    pub sqlstate: String,
    pub message: String,
    detail: Option<String>,
    /// The service that returned the error, if one did.
    service: Option<String>,
}

impl From<ClaimsError> for Failure {
    fn from(error: ClaimsError) -> Self {
        if let ClaimsError::Cell(CellError::Refused(RemoteError { sqlstate, message, detail, server, .. })) = error {
            let sqlstate = String::from_utf8_lossy(&sqlstate).into_owned();
            return Failure { sqlstate, message, detail, service: Some(server) };
        }
        let Text(code, message, detail, _) = error.text();
        Failure { sqlstate: sqlstate::text(code), message, detail, service: None }
    }
}

impl From<&Caught> for Failure {
    fn from(caught: &Caught) -> Self {
        let (sqlstate, message) = (sqlstate::text(caught.code()), caught.message().to_owned());
        Failure { sqlstate, message, detail: None, service: None }
    }
}

/// Logs that a job of the worker has failed and will be repeated.
pub fn log_failed_pass(job: &str, failure: &Failure) {
    let Failure { sqlstate, message, detail, service } = failure;
    let report = ErrorReport::new(Code::ERRCODE_WARNING, format!("{job} failed: {message}"), function_name!());
    let detail = detail.as_ref().map_or_else(String::new, |detail| format!(" {detail}"));
    let service = service.as_ref().map_or_else(String::new, |service| format!(", from claims service \"{service}\""));
    report
        .set_detail(format!("SQLSTATE {sqlstate}{service}.{detail}"))
        .set_hint("It is tried again by itself; claims.passes has the history.")
        .report(PgLogLevel::WARNING);
}

/// The reason why the background worker waits.
#[derive(PartialEq, Eq)]
pub enum Hindrance {
    /// The extension in the database has another version than the library.
    OtherVersion(String),
    /// The extension's tables are not all in this database.
    DistributedTables,
}

/// Logs that the background worker waits, and for which change.
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

/// Warns that the server has no free slot for another background worker.
pub fn warn_of_no_slot_for_worker(worker: &str, database: &str) {
    let message = format!("there is no {worker} for database \"{database}\"");
    ErrorReport::new(Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED, message, function_name!())
        .set_detail("The server has as many background workers as it may.")
        .set_hint("Raise max_worker_processes. It is tried again in a minute.")
        .report(PgLogLevel::WARNING);
}
