//! Errors of a cell: tracked leases, calls to the service, questions about names.

use std::time::Duration;

use claims_model::problem::shortened;
use pgrx::PgLogLevel;
use uuid::Uuid;

use crate::kernel::error::{ClaimsError, errors, text};
use pg::clock::Moment;
use pg::libpq::{Mismatch, RemoteError};

errors! {
    /// The reason why a call in a cell's database, or to the service, fails.
    pub enum CellError {
        /// Recovery has fenced the lease, so its local transaction must not commit.
        GivenUp { lease: Uuid } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "lease {lease} was given up by recovery",
            detail "It was not tracked in time, and is or will be rolled back at the service.",
            hint "Roll this transaction back, and repeat it with a new lease.";
        LeaseInRecovery => ERRCODE_LOCK_NOT_AVAILABLE: "lease is being tracked or fenced by another open transaction",
            hint "Roll this transaction back, and repeat it with a new lease.";
        /// No foreign server of this name leads to a PostgreSQL database.
        NotAService { server: String } => ERRCODE_UNDEFINED_OBJECT:
            "service is not a foreign server of claims_service, postgres_fdw or dblink_fdw",
            detail ("There is no such server \"{}\".", shortened(&server)),
            hint "Create it with CREATE SERVER ... FOREIGN DATA WRAPPER claims_service, \
                and a user mapping for the owner of claims; connection strings are not taken.";
        ServerOfOther { server: String, owner: String } => ERRCODE_INSUFFICIENT_PRIVILEGE:
            "permission denied: service is not an administrator's foreign server",
            detail "Server \"{server}\" belongs to role \"{owner}\".",
            hint "Have an administrator own the server that leads to the shared database.";
        /// The foreign server uses another wrapper, and was not added as a service.
        NotNamed { server: String, wrapper: String } => ERRCODE_INSUFFICIENT_PRIVILEGE:
            "permission denied: foreign server is not named as a service of claims",
            detail "Server \"{server}\" is of the foreign-data wrapper {wrapper}, \
                whose servers exist for other purposes, too.",
            hint "Have the server's owner, as an administrator of claims, or a superuser call claims.add_service(), \
                or make a server of the wrapper claims_service.";
        NotOwnServer { server: String, owner: String, caller: String } => ERRCODE_INSUFFICIENT_PRIVILEGE:
            "permission denied: only the owner of a foreign server may name it as a service of claims",
            detail "Server \"{server}\" belongs to role \"{owner}\", whose privileges role \"{caller}\" does not have.",
            hint "Have the server's owner, as an administrator of claims, or a superuser call claims.add_service().";
        /// The service to be removed was never added.
        NotNamedYet { server: String } => ERRCODE_UNDEFINED_OBJECT:
            ("foreign server \"{}\" is not named as a service of claims", shortened(&server)),
            hint "Servers of the wrapper claims_service need no name: take the user mapping away, or drop the server.";
        ServiceInUse { server: String, users: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
            ("foreign server \"{}\" is in use as a service", shortened(&server)),
            detail "It is called by {users}.",
            hint "End that first, by claims.automatic(NULL, NULL) and claims.attend() with the cell and NULL, \
                or have them call another service.";
        /// The extension's owner has no USAGE on the foreign server.
        MayNotUse { server: String, user: String } => ERRCODE_INSUFFICIENT_PRIVILEGE: "permission denied for foreign server {server}",
            detail "Role \"{user}\", the owner of claims, may not use it.",
            hint "Have an administrator run GRANT USAGE ON FOREIGN SERVER ... TO the owner of claims.";
        NoUserMapping { server: String, user: String } => ERRCODE_UNDEFINED_OBJECT: "user mapping not found for \"{user}\"",
            detail "Role \"{user}\" owns extension claims in this database, and connects to server \"{server}\".",
            hint "Have a superuser make one with CREATE USER MAPPING. \
                After a restore the extension belongs to the role that has restored it.";
        /// An owner who is not a superuser would connect as the server's operating system user. `given` says whether a
        /// password was sent, for which the service did not ask.
        PasswordRequired { given: bool } => ERRCODE_S_R_E_PROHIBITED_SQL_STATEMENT_ATTEMPTED: "password is required",
            detail (
                "The owner of claims is no superuser, and the {}.",
                if given { "service did not ask for the password" } else { "user mapping has no password" },
            ),
            hint "Have the service ask for a password and give it in the user mapping, \
                or have a superuser own the server and set the mapping's option password_required to false.";
        InParallelWorker => ERRCODE_INVALID_TRANSACTION_STATE: "cannot call the claims service during a parallel operation",
            hint "Leave the functions of claims PARALLEL UNSAFE.";
        UnknownOption { option: String, allowed: String } => ERRCODE_FDW_INVALID_OPTION_NAME: ("invalid option \"{}\"", shortened(&option)),
            detail { if allowed.is_empty() { "No options are allowed here.".to_owned() } else { format!("Allowed here are: {allowed}.") } },
            hint "Servers have options about where the service is, user mappings about who connects.";
        OptionOfSuperusers { option: String } => ERRCODE_INSUFFICIENT_PRIVILEGE: "permission denied to set option \"{option}\"",
            detail "Only superusers may.",
            hint "Connect with a password.";
        BadOption { option: String, value: String } => ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE:
            ("invalid value for option \"{option}\": \"{}\"", shortened(&value)),
            hint "Give what libpq takes; password_required is true or false.";
        /// After consecutive failures the service is not called during a pause.
        BreakerOpen { server: String, failures: u32, last_error: String, next_try: Moment } =>
            ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION: "claims service \"{server}\" is not called at the moment",
            detail "{failures} calls in a row have failed, the last one with: {last_error}",
            hint ("It is tried again at {}. Repeat the call then.", next_try.text());
        /// The service returned an error.
        Refused(RemoteError);
        /// The service does not have a function that this version calls.
        OlderService { answer: String } => ERRCODE_FEATURE_NOT_SUPPORTED:
            "claims service has an older version of the extension than this database",
            detail "It answers: {answer}.",
            hint "Upgrade the extension in the service's database; \
                a service supports older cells, not the other way round.";
        /// The service cannot be reached, or the connection was lost.
        ServiceUnreachable { server: String, detail: String } => ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION:
            "claims service \"{server}\" cannot be reached",
            detail { detail },
            hint "Nothing was changed here. Repeat the call when the service is back.";
        ServiceSilent { server: String, timeout: Duration } => ERRCODE_QUERY_CANCELED: "claims service \"{server}\" did not answer in time",
            detail ("It was given {} ms.", timeout.as_millis()),
            hint "Repeat the transaction.";
        EpochNotCommitted { cell_id: i64 } => ERRCODE_LOCK_NOT_AVAILABLE: "a new epoch of cell {cell_id} could not be committed",
            detail "The process \"claims epoch\" has told the server's log why, or other passes were faster each time.",
            hint "Repeat the call. Nothing was decided.";
        /// The server has no free slot for the background worker that commits an epoch.
        NoProcess => ERRCODE_CONFIGURATION_LIMIT_EXCEEDED: "no background worker can be started",
            detail "One commits, for a moment, that this database acts as the cell; the server has as many as it may.",
            hint "Raise max_worker_processes, or repeat the call later. Nothing was decided.";
        /// The answer of the service does not have the expected form.
        WrongAnswer { server: String, mismatch: Mismatch } => ERRCODE_PROTOCOL_VIOLATION:
            "answer of claims service \"{server}\" is not what was asked for",
            detail { described(mismatch) },
            hint "The connection is closed, and nothing counts as done. \
                Check that the server leads to a database with extension claims, of the same version as here or a newer one.";
        ServiceFull { server: String, detail: String } => ERRCODE_TOO_MANY_CONNECTIONS:
            "claims service \"{server}\" has too many connections",
            detail { detail },
            hint "Repeat the call. Raise max_connections of the service, or put a pooler in front of it.";
        /// The sessions of this server make as many calls as they may, and none of them has ended in time.
        TooManyCalls { server: String, limit: u32 } => ERRCODE_TOO_MANY_CONNECTIONS:
            "claims service \"{server}\" has too many calls of this server at once",
            detail "There may be {limit} at the same time, and this one waited for its turn as long as it may.",
            hint "Repeat the transaction. If that happens often, raise claims.max_service_calls or claims.service_timeout, \
                or find out why the service answers slowly.";
        NoFiles { server: String } => ERRCODE_INSUFFICIENT_RESOURCES: "cannot connect to claims service \"{server}\"",
            detail "There are too many open files on the local server.",
            hint "Close other connections of this session, or raise max_files_per_process.";
        RequestTooLarge { bytes: usize, most: usize } => ERRCODE_PROGRAM_LIMIT_EXCEEDED: "request to the claims service is too large",
            detail "It has {bytes} bytes; at most {most} are sent.",
            hint "Change fewer rows in one transaction.";
        /// The sequence could not be locked in time.
        SequenceBusy { name: String } => ERRCODE_LOCK_NOT_AVAILABLE:
            "sequence \"{name}\" is in use by open transactions",
            detail "Its next range does not follow the last one, so it must be locked for a moment.",
            hint "Repeat the call; the background worker does.";
    }
}

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
        Mismatch::Unreadable(reason) => format!("It cannot be read: {}.", reason.trim_end_matches('.')),
    }
}

impl CellError {
    /// Returns whether the service has not answered, because it was not or could not be called, or had no place for the call.
    pub fn is_without_answer(&self) -> bool {
        use CellError::{BreakerOpen, ServiceFull, ServiceSilent, ServiceUnreachable, TooManyCalls};
        matches!(
            self,
            BreakerOpen { .. }
                | ServiceFull { .. }
                | ServiceSilent { .. }
                | ServiceUnreachable { .. }
                | TooManyCalls { .. }
        )
    }
}

impl ClaimsError {
    /// Returns the error that the service has raised, if it is one.
    pub fn refusal(&self) -> Option<&RemoteError> {
        match self.of() {
            Some(CellError::Refused(error)) => Some(error),
            _ => None,
        }
    }

    /// Returns whether the service has refused a call because of a limit of the cell. A smaller call, or one that comes later, succeeds.
    pub fn is_remote_limit(&self) -> bool {
        self.refusal().is_some_and(|error| error.sqlstate == *b"53400")
    }
}

/// Returns an error of this database in the form of a service's. It names no server.
pub fn as_refusal(error: ClaimsError) -> RemoteError {
    let text = error.text();
    RemoteError {
        sqlstate: text.sqlstate(),
        message: text.message,
        detail: text.detail,
        hint: text.hint,
        server: String::new(),
    }
}

errors! {
    /// The reason why is_available() fails.
    pub enum AvailabilityError {
        MayNotWrite { column: String, caller: String } => ERRCODE_INSUFFICIENT_PRIVILEGE: "permission denied for column \"{column}\"",
            detail "Role \"{caller}\" may neither insert nor update it, or it does not exist.",
            hint "Only roles that may write a name may ask whether it is free.";
        NoService => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "there is no service to ask",
            detail "Automatic mode is off, and the worker attends to no cell, or to several.",
            hint "Turn automatic mode on with claims.automatic(), or name the service with claims.attend().";
    }
}

/// Notifies the client of first_available() that the service has an answer, and no name is free.
pub fn notice_of_none_available(asked: usize) {
    text!(ERRCODE_SUCCESSFUL_COMPLETION: "no candidate is available",
        detail ("{asked} {} asked for.", if asked == 1 { "name was" } else { "names were" }))
    .send(PgLogLevel::NOTICE);
}

/// Notifies the client of first_available() that the service has not answered.
pub fn notice_of_silence(timeout: Duration) {
    text!(ERRCODE_SUCCESSFUL_COMPLETION: "claims service did not answer",
        detail ("It was given {} ms (claims.observe_timeout). Whether a candidate is available is not known.", timeout.as_millis()))
    .send(PgLogLevel::NOTICE);
}

/// Notifies the client that a server is already a service without being added.
pub fn notice_of_own_wrapper(server: &str) {
    text!(ERRCODE_SUCCESSFUL_COMPLETION: "foreign server \"{server}\" is a service of claims already",
        detail "Its foreign-data wrapper is claims_service.")
    .send(PgLogLevel::NOTICE);
}
