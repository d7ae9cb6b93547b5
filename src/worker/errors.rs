//! Messages of the background worker in the server's log.

use pgrx::PgLogLevel;

use crate::cell::verify::errors::VerificationError;
use crate::kernel::error::{ClaimsError, text};
use crate::kernel::pass_log::Failure;

impl From<ClaimsError> for Failure {
    fn from(error: ClaimsError) -> Self {
        let is_expected = matches!(error.of(), Some(VerificationError::NoSlot { .. }));
        let text = error.text();
        let sqlstate = String::from_utf8_lossy(&text.sqlstate()).into_owned();
        let service = text.completion.and_then(|completion| completion.service);
        Failure { sqlstate, message: text.message, detail: text.detail, service, is_expected }
    }
}

/// Logs that the worker has updated the extension from a version to that of the library.
pub fn log_updated(from: &str) {
    text!(ERRCODE_SUCCESSFUL_COMPLETION: ("claims worker has updated the extension from version {from} to {}", env!("CARGO_PKG_VERSION")))
        .send(PgLogLevel::LOG);
}

/// Logs that a job of the worker has failed and will be repeated, unless the failure is expected.
pub fn log_failed_pass(job: &str, failure: &Failure) {
    let Failure { sqlstate, message, detail, service, is_expected } = failure;
    if *is_expected {
        return;
    }
    let detail = detail.as_ref().map_or_else(String::new, |detail| format!(" {detail}"));
    let service = service.as_ref().map_or_else(String::new, |service| format!(", from claims service \"{service}\""));
    text!(ERRCODE_WARNING: "{job} failed: {message}",
        detail "SQLSTATE {sqlstate}{service}.{detail}",
        hint "It is tried again by itself; claims.passes has the history.")
    .send(PgLogLevel::WARNING);
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
    let text = match hindrance {
        Hindrance::OtherVersion(version) => text!(ERRCODE_WARNING:
            ("claims worker waits: the extension is of version {version}, the library of {}", env!("CARGO_PKG_VERSION")),
            hint "Run ALTER EXTENSION claims UPDATE, or restart the server if that was done with a newer library."),
        Hindrance::DistributedTables => {
            text!(ERRCODE_WARNING: "claims worker waits: the tables of claims are not in this database",
            hint "Every function of claims says why, and what to do.")
        }
    };
    text.send(PgLogLevel::WARNING);
}

/// Warns that the server has no free slot for another background worker.
pub fn warn_of_no_slot_for_worker(worker: &str, database: &str) {
    text!(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED: "there is no {worker} for database \"{database}\"",
        detail "The server has as many background workers as it may.",
        hint "Raise max_worker_processes. It is tried again in a minute.")
    .send(PgLogLevel::WARNING);
}

/// Warns that the server has no room for a worker of a single service.
pub fn warn_of_no_slot_for_service(worker: &str, service: &str, database: &str) {
    text!(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED: "there is no {worker} for service \"{service}\" of database \"{database}\"",
        detail "The server has as many background workers as it may. The worker of the database calls this service, too.",
        hint "Raise max_worker_processes: while one service does not answer, leases of another one may wait. It is tried again in a minute.")
    .send(PgLogLevel::WARNING);
}

/// Logs that the worker has removed a service whose foreign server was dropped.
pub fn log_forgotten_service(cell_id: i64, service: &str) {
    text!(ERRCODE_WARNING: "claims worker does not attend to cell {cell_id} at service \"{service}\" any more",
        detail "There is no such foreign server, no bucket type is claimed there, and no lease is tracked there.")
    .send(PgLogLevel::WARNING);
}

/// Logs that the worker has ended a session that held back the change feed.
pub fn log_ended_feed_holder(role: &str, pid: i32, idle_seconds: u32) {
    text!(ERRCODE_WARNING: "claims worker has ended session {pid} of role \"{role}\"",
        detail "It was idle in a transaction for more than {idle_seconds} s, and held back the change feed.",
        hint "claims.change_feed_idle_timeout says how long that is allowed.")
    .send(PgLogLevel::WARNING);
}
