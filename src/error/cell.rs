//! The errors of a cell's half: tracked leases, and calls to the service.

use std::time::Duration;

use claims_model::problem::shortened;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::{PgSqlErrorCode as Code, function_name};
use uuid::Uuid;

use super::text::Text;
use crate::pg::clock::Moment;
use crate::pg::libpq::RemoteError;

/// What goes wrong in a cell's own database, or on the way to the service.
#[derive(Debug)]
pub enum CellError {
    /// Recovery has fenced the lease: its local transaction must not commit any more.
    GivenUp {
        lease: Uuid,
    },
    /// Another open transaction is tracking or fencing the lease.
    LeaseInRecovery,
    /// No foreign server that leads to a Postgres database has this name.
    NotAService {
        server: String,
    },
    /// The foreign server belongs to somebody who is no administrator.
    ServerOfOther {
        server: String,
        owner: String,
    },
    /// The extension's owner has no USAGE on the foreign server.
    MayNotUse {
        server: String,
        user: String,
    },
    /// An owner who is no superuser would connect as the server's operating system user. `given`: there was a password,
    /// and the service did not ask for it.
    PasswordRequired {
        given: bool,
    },
    /// A process that helps with a query is not to call the service.
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
    /// After failures in a row the service is not called for a while.
    BreakerOpen {
        server: String,
        failures: u32,
        last_error: String,
        next_try: Moment,
    },
    /// What the service has answered instead of a result.
    Refused(RemoteError),
    /// The service has no function that this version calls.
    OlderService {
        answer: String,
    },
    /// The service cannot be reached, or went away.
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
    EpochNotKept {
        cell_id: i64,
    },
    /// The server has no place for the process that commits it.
    NoProcess,
    /// The service says something that this version does not know.
    StrangeAnswer {
        what: String,
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
            CellError::MayNotUse { server, user } => Text(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("permission denied for foreign server {server}"),
                Some(format!("Role \"{user}\", the owner of claims, may not use it.")),
                Some("Have an administrator run GRANT USAGE ON FOREIGN SERVER ... TO the owner of claims."),
            ),
            CellError::PasswordRequired { given } => Text(
                Code::ERRCODE_S_R_E_PROHIBITED_SQL_STATEMENT_ATTEMPTED,
                "password is required".into(),
                Some(match given {
                    false => "The owner of claims is no superuser, and the user mapping has no password.".into(),
                    true => "The owner of claims is no superuser, and the service did not ask for the password.".into(),
                }),
                Some(
                    "Have the service ask for a password and give it in the user mapping, or have a superuser set its option password_required to false.",
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
            CellError::EpochNotKept { cell_id } => Text(
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
            CellError::StrangeAnswer { what } => Text(
                Code::ERRCODE_DATA_EXCEPTION,
                "answer of the claims service cannot be read".into(),
                Some(format!("It says {what}.")),
                Some("Install the same version of the extension in the cell and at the service."),
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

/// An error of the service, as it is there.
pub(super) fn refusal(RemoteError { sqlstate, message, detail, hint }: RemoteError) -> ErrorReport {
    // Postgres' own encoding: five groups of six bits.
    let number = sqlstate.iter().rev().fold(0, |number, c| number << 6 | (i32::from(*c) - i32::from(b'0')) & 0x3F);
    let code = match Code::from(number) {
        // A code that this library does not know.
        Code::ERRCODE_INTERNAL_ERROR if &sqlstate != b"XX000" => Code::ERRCODE_FDW_ERROR,
        code => code,
    };
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
