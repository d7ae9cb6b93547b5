//! Errors of a cell: tracked leases, and calls to the service.

use std::time::Duration;

use claims_model::problem::shortened;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::{PgSqlErrorCode as Code, function_name};
use uuid::Uuid;

use super::text::Text;
use crate::pg::clock::Moment;
use crate::pg::error_context;
use crate::pg::libpq::{Mismatch, RemoteError};

/// The reason why a call in a cell's database, or to the service, fails.
#[derive(Debug)]
pub enum CellError {
    /// Recovery has fenced the lease, so its local transaction must not commit.
    GivenUp {
        lease: Uuid,
    },
    /// Another open transaction is tracking or fencing the lease.
    LeaseInRecovery,
    /// No foreign server of this name leads to a PostgreSQL database.
    NotAService {
        server: String,
    },
    /// The owner of the foreign server is not an administrator.
    ServerOfOther {
        server: String,
        owner: String,
    },
    /// The foreign server uses another wrapper, and was not added as a service.
    NotNamed {
        server: String,
        wrapper: String,
    },
    /// The caller does not own the foreign server to be added.
    NotOwnServer {
        server: String,
        owner: String,
        caller: String,
    },
    /// The service to be removed was never added.
    NotNamedYet {
        server: String,
    },
    /// The service to be removed is in use.
    ServiceInUse {
        server: String,
        users: String,
    },
    /// The extension's owner has no USAGE on the foreign server.
    MayNotUse {
        server: String,
        user: String,
    },
    /// The extension's owner has no user mapping for the foreign server.
    NoUserMapping {
        server: String,
        user: String,
    },
    /// An owner who is not a superuser would connect as the server's operating system user. `given` says whether a
    /// password was sent, for which the service did not ask.
    PasswordRequired {
        given: bool,
    },
    /// A parallel worker must not call the service.
    InParallelWorker,
    /// An option that servers, or user mappings, of the wrapper do not have.
    UnknownOption {
        option: String,
        allowed: String,
    },
    OptionOfSuperusers {
        option: String,
    },
    BadOption {
        option: String,
        value: String,
    },
    /// After consecutive failures the service is not called during a pause.
    BreakerOpen {
        server: String,
        failures: u32,
        last_error: String,
        next_try: Moment,
    },
    /// The service returned an error.
    Refused(RemoteError),
    /// The service does not have a function that this version calls.
    OlderService {
        answer: String,
    },
    /// The service cannot be reached, or the connection was lost.
    ServiceUnreachable {
        server: String,
        detail: String,
    },
    /// The service did not answer in time.
    ServiceSilent {
        server: String,
        timeout: Duration,
    },
    /// A new epoch could not be committed.
    EpochNotCommitted {
        cell_id: i64,
    },
    /// The server has no free slot for the background worker that commits it.
    NoProcess,
    /// The answer of the service does not have the expected form.
    WrongAnswer {
        server: String,
        mismatch: Mismatch,
    },
    /// The service has no slot for another connection.
    ServiceFull {
        server: String,
        detail: String,
    },
    /// This process has too many open files to connect.
    NoFiles {
        server: String,
    },
    /// A call would send more bytes than a server accepts.
    RequestTooLarge {
        bytes: usize,
        most: usize,
    },
}

impl CellError {
    pub(super) fn text(self) -> Text {
        match self {
            CellError::GivenUp { lease } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("lease {lease} was given up by recovery"),
                Some("It was not tracked in time, and is or will be rolled back at the service.".into()),
                Some("Roll this transaction back, and repeat it with a new lease."),
            ),
            CellError::LeaseInRecovery => Text(
                Code::ERRCODE_LOCK_NOT_AVAILABLE,
                "lease is being tracked or fenced by another open transaction".into(),
                None,
                Some("Roll this transaction back, and repeat it with a new lease."),
            ),
            CellError::NotAService { server } => Text(
                Code::ERRCODE_UNDEFINED_OBJECT,
                "service is not a foreign server of claims_service, postgres_fdw or dblink_fdw".into(),
                Some(format!("There is no such server \"{}\".", shortened(&server))),
                Some(
                    "Create it with CREATE SERVER ... FOREIGN DATA WRAPPER claims_service, and a user mapping for the owner of claims; connection strings are not taken.",
                ),
            ),
            CellError::ServerOfOther { server, owner } => Text(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                "permission denied: service is not an administrator's foreign server".into(),
                Some(format!("Server \"{server}\" belongs to role \"{owner}\".")),
                Some("Have an administrator own the server that leads to the shared database."),
            ),
            CellError::NotNamed { server, wrapper } => Text(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                "permission denied: foreign server is not named as a service of claims".into(),
                Some(format!(
                    "Server \"{server}\" is of the foreign-data wrapper {wrapper}, whose servers exist for other purposes, too."
                )),
                Some(
                    "Have the server's owner, as an administrator of claims, or a superuser call claims.add_service(), or make a server of the wrapper claims_service.",
                ),
            ),
            CellError::NotOwnServer { server, owner, caller } => Text(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                "permission denied: only the owner of a foreign server may name it as a service of claims".into(),
                Some(format!("Server \"{server}\" belongs to role \"{owner}\", whose privileges role \"{caller}\" does not have.")),
                Some("Have the server's owner, as an administrator of claims, or a superuser call claims.add_service()."),
            ),
            CellError::NotNamedYet { server } => Text(
                Code::ERRCODE_UNDEFINED_OBJECT,
                format!("foreign server \"{}\" is not named as a service of claims", shortened(&server)),
                None,
                Some(
                    "Servers of the wrapper claims_service need no name: take the user mapping away, or drop the server.",
                ),
            ),
            CellError::ServiceInUse { server, users } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("foreign server \"{}\" is in use as a service", shortened(&server)),
                Some(format!("It is called by {users}.")),
                Some(
                    "End that first, by claims.automatic(NULL, NULL) and claims.attend() with the cell and NULL, or have them call another service.",
                ),
            ),
            CellError::MayNotUse { server, user } => Text(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("permission denied for foreign server {server}"),
                Some(format!("Role \"{user}\", the owner of claims, may not use it.")),
                Some("Have an administrator run GRANT USAGE ON FOREIGN SERVER ... TO the owner of claims."),
            ),
            CellError::NoUserMapping { server, user } => Text(
                Code::ERRCODE_UNDEFINED_OBJECT,
                format!("user mapping not found for \"{user}\""),
                Some(format!("Role \"{user}\" owns extension claims in this database, and connects to server \"{server}\".")),
                Some(
                    "Have a superuser make one with CREATE USER MAPPING. After a restore the extension belongs to the role that has restored it.",
                ),
            ),
            CellError::PasswordRequired { given } => Text(
                Code::ERRCODE_S_R_E_PROHIBITED_SQL_STATEMENT_ATTEMPTED,
                "password is required".into(),
                Some(match given {
                    false => "The owner of claims is no superuser, and the user mapping has no password.".into(),
                    true => "The owner of claims is no superuser, and the service did not ask for the password.".into(),
                }),
                Some(
                    "Have the service ask for a password and give it in the user mapping, or have a superuser own the server and set the mapping's option password_required to false.",
                ),
            ),
            CellError::InParallelWorker => Text(
                Code::ERRCODE_INVALID_TRANSACTION_STATE,
                "cannot call the claims service during a parallel operation".into(),
                None,
                Some("Leave the functions of claims PARALLEL UNSAFE."),
            ),
            CellError::UnknownOption { option, allowed } => Text(
                Code::ERRCODE_FDW_INVALID_OPTION_NAME,
                format!("invalid option \"{}\"", shortened(&option)),
                Some(if allowed.is_empty() {
                    "No options are allowed here.".into()
                } else {
                    format!("Allowed here are: {allowed}.")
                }),
                Some("Servers have options about where the service is, user mappings about who connects."),
            ),
            CellError::OptionOfSuperusers { option } => Text(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("permission denied to set option \"{option}\""),
                Some("Only superusers may.".into()),
                Some("Connect with a password."),
            ),
            CellError::BadOption { option, value } => Text(
                Code::ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE,
                format!("invalid value for option \"{option}\": \"{}\"", shortened(&value)),
                None,
                Some("Give what libpq takes; password_required is true or false."),
            ),
            CellError::BreakerOpen { server, failures, last_error, .. } => Text(
                Code::ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION,
                format!("claims service \"{server}\" is not called at the moment"),
                Some(format!("{failures} calls in a row have failed, the last one with: {last_error}")),
                None,
            ),
            // `refusal` raises it.
            CellError::Refused(RemoteError { message, detail, .. }) => {
                Text(Code::ERRCODE_FDW_ERROR, message, detail, None)
            }
            CellError::OlderService { answer } => Text(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                "claims service has an older version of the extension than this database".into(),
                Some(format!("It answers: {answer}.")),
                Some("Upgrade the extension in the service's database; a service supports older cells, not the other way round."),
            ),
            CellError::ServiceUnreachable { server, detail } => Text(
                Code::ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION,
                format!("claims service \"{server}\" cannot be reached"),
                Some(detail),
                Some("Nothing was changed here. Repeat the call when the service is back."),
            ),
            CellError::EpochNotCommitted { cell_id } => Text(
                Code::ERRCODE_LOCK_NOT_AVAILABLE,
                format!("a new epoch of cell {cell_id} could not be committed"),
                Some("The process \"claims epoch\" has told the server's log why, or other passes were faster each time.".into()),
                Some("Repeat the call. Nothing was decided."),
            ),
            CellError::NoProcess => Text(
                Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                "no background worker can be started".into(),
                Some("One commits, for a moment, that this database acts as the cell; the server has as many as it may.".into()),
                Some("Raise max_worker_processes, or repeat the call later. Nothing was decided."),
            ),
            CellError::WrongAnswer { server, mismatch } => Text(
                Code::ERRCODE_PROTOCOL_VIOLATION,
                format!("answer of claims service \"{server}\" is not what was asked for"),
                Some(described(mismatch)),
                Some(
                    "The connection is closed, and nothing counts as done. Check that the server leads to a database with extension claims, of the same version as here or a newer one.",
                ),
            ),
            CellError::ServiceFull { server, detail } => Text(
                Code::ERRCODE_TOO_MANY_CONNECTIONS,
                format!("claims service \"{server}\" has too many connections"),
                Some(detail),
                Some("Repeat the call. Raise max_connections of the service, or have a pooler in between."),
            ),
            CellError::NoFiles { server } => Text(
                Code::ERRCODE_INSUFFICIENT_RESOURCES,
                format!("cannot connect to claims service \"{server}\""),
                Some("There are too many open files on the local server.".into()),
                Some("Close other connections of this session, or raise max_files_per_process."),
            ),
            CellError::RequestTooLarge { bytes, most } => Text(
                Code::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
                "request to the claims service is too large".into(),
                Some(format!("It has {bytes} bytes; at most {most} are sent.")),
                Some("Change fewer rows in one transaction."),
            ),
            CellError::ServiceSilent { server, timeout } => Text(
                Code::ERRCODE_QUERY_CANCELED,
                format!("claims service \"{server}\" did not answer in time"),
                Some(format!("It was given {} ms.", timeout.as_millis())),
                Some("Repeat the transaction."),
            ),
        }
    }
}

/// Describes a mismatch as a sentence.
fn described(mismatch: Mismatch) -> String {
    let counted = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    let rows = |number| counted(number, "row");
    match mismatch {
        Mismatch::Columns { got, wanted } => format!("Its rows have {} instead of {wanted}.", counted(got, "column")),
        Mismatch::Rows { got, wanted } if wanted.start() == wanted.end() => {
            format!("It has {} instead of {}.", rows(got), wanted.end())
        }
        Mismatch::Rows { got, wanted } => {
            format!("It has {} instead of {} to {}.", rows(got), wanted.start(), wanted.end())
        }
        Mismatch::MoreRows { most } => format!("It has more than {}.", rows(most)),
        Mismatch::TooLarge { most } => format!("It takes more than {} KiB.", most / 1024),
        Mismatch::Early => "The call ended without it.".to_owned(),
        Mismatch::Surplus => "More came behind it.".to_owned(),
        Mismatch::Kind(kind) => format!("It is {kind}."),
        Mismatch::Transaction(says) => format!("The service says behind it that {says}."),
        Mismatch::NoText => "It has a value that is not valid UTF-8, or has a zero byte.".to_owned(),
        Mismatch::Value(value) => format!("It says \"{}\".", shortened(&value)),
        Mismatch::Unreadable(complaint) => format!("It cannot be read: {}.", complaint.trim_end_matches('.')),
    }
}

/// Builds the error that the service raised. CONTEXT names the service.
pub(super) fn refusal(RemoteError { sqlstate, message, detail, hint, server }: RemoteError) -> ErrorReport {
    let code = error_context::known_code(sqlstate).unwrap_or(Code::ERRCODE_FDW_ERROR);
    error_context::complete_next(code, sqlstate, format!("error of claims service \"{server}\""));
    let report = ErrorReport::new(code, message, function_name!());
    let report = match detail {
        Some(detail) => report.set_detail(detail),
        None => report,
    };
    match hint {
        Some(hint) => report.set_hint(hint),
        None => report,
    }
}
