//! The errors of `claims`: the only place that knows SQLSTATEs, messages, DETAIL and HINT.

use std::time::Duration;

use claims_model::problem::shortened;
use claims_model::{BadInput, Reason};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::{PgLogLevel, PgSqlErrorCode as Code, function_name};
use uuid::Uuid;

mod bad_input;
mod verification;
mod warnings;
pub use verification::{VerificationError, warn_of_lost_range, warn_of_rows};
pub use warnings::{warn_of_failures, warn_of_orphans};
mod capture;
pub use capture::{CaptureError, warn_of_mutable_condition};

/// Everything that a call can answer instead of a result.
#[derive(Debug)]
pub enum ClaimsError {
    /// Input that is not of the form or size that it must have.
    BadInput(BadInput),
    /// The caller may not act for the cell.
    NotTheCell { cell_id: i64, caller: String },
    /// An administrator named a cell that is not registered.
    UnknownCell { cell_id: i64 },
    /// The caller is no administrator.
    NotAdmin { caller: String },
    /// The batch cannot have all its claims. `detail` is the JSON of the conflicts.
    Conflicts { weightiest: Reason, count: usize, detail: String },
    /// Another open transaction is beginning, fencing or settling the lease.
    LeaseBusy,
    /// Another transaction has locked a whole table.
    TableLocked,
    /// Called from code that runs with somebody else's identity around it.
    Restricted,
    /// The lease was rolled back.
    RolledBack { lease: Uuid },
    /// The lease was committed.
    Committed { lease: Uuid },
    /// No lease of the calling cell has this uuid.
    UnknownLease { lease: Uuid },
    /// A lease of another cell has this uuid.
    ForeignLease { lease: Uuid },
    /// The lease was begun with another request.
    OtherRequest { lease: Uuid },
    /// A lease was named twice where only one outcome can be.
    ContradictoryOutcomes { lease: Uuid },
    /// What the transaction's snapshot shows of the lease is out of date.
    StaleLease { lease: Uuid },
    /// What the transaction's snapshot shows of a claim of the batch is out of date.
    StaleClaim,
    /// A lease does not hold what its payload names: somebody wrote into the tables.
    Damaged { lease: Uuid, expected: usize, found: usize },
    /// The caller neither owns the table nor is an administrator.
    NotTheOwner { caller: String },
    /// The token is not the key's current one, or its claim has expired.
    NotHeld { kind: String, key: String, token: i64 },
    /// What the transaction's snapshot shows of an expiring claim is out of date.
    StaleHold,
    /// The entity has a create request already.
    CreateExists { queue: String, entity: String },
    /// The process has no request in hand.
    NothingInHand { process: Uuid },
    /// Another session is extending or settling what the process holds.
    HoldBusy,
    /// Requests that the process held count as new again.
    HoldExpired { process: Uuid, expired: i64, lost: i64 },
    /// A payload or type table that can no longer be read.
    Unreadable { what: String },
    /// Recovery has fenced the lease: its local transaction must not commit any more.
    GivenUp { lease: Uuid },
    /// Another open transaction is tracking or fencing the lease.
    LeaseInRecovery,
    /// No foreign server of a wrapper that dblink can use has this name.
    NotAService { server: String },
    /// The foreign server belongs to somebody who is no administrator.
    ServerOfOther { server: String, owner: String },
    /// The extension dblink is not there.
    NoDblink,
    /// The service cannot be reached, or went away.
    ServiceUnreachable { server: String, detail: String },
    /// The service did not answer in time.
    ServiceSilent { server: String, timeout: Duration },
    /// What goes wrong in verification.
    Verification(VerificationError),
    /// What goes wrong with claimed attributes.
    Capture(CaptureError),
}

impl From<BadInput> for ClaimsError {
    fn from(bad: BadInput) -> Self {
        ClaimsError::BadInput(bad)
    }
}

impl From<serde_json::Error> for ClaimsError {
    fn from(error: serde_json::Error) -> Self {
        ClaimsError::Unreadable { what: error.to_string() }
    }
}

impl From<ClaimsError> for ErrorReport {
    fn from(error: ClaimsError) -> Self {
        error.report()
    }
}

/// Raises an error where there is one. For triggers, whose errors pgrx would otherwise make XX000.
pub fn raise<T>(result: Result<T, ClaimsError>) {
    if let Err(error) = result {
        error.report().report(PgLogLevel::ERROR);
    }
}

/// SQLSTATE, message, DETAIL, HINT.
struct Text(Code, String, Option<String>, Option<&'static str>);

impl ClaimsError {
    /// The SQLSTATE-carrying report that Postgres raises.
    pub fn report(self) -> ErrorReport {
        let Text(code, message, detail, hint) = self.text();
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

    fn text(self) -> Text {
        match self {
            ClaimsError::BadInput(bad) => bad_input::bad_input(bad),
            ClaimsError::NotTheCell { .. }
            | ClaimsError::UnknownCell { .. }
            | ClaimsError::NotAdmin { .. }
            | ClaimsError::NotTheOwner { .. } => self.privilege(),
            ClaimsError::NotHeld { .. }
            | ClaimsError::StaleHold
            | ClaimsError::CreateExists { .. }
            | ClaimsError::NothingInHand { .. }
            | ClaimsError::HoldBusy
            | ClaimsError::HoldExpired { .. } => self.shorter_hold(),
            ClaimsError::Conflicts { weightiest, count, detail } => conflicts(weightiest, count, detail),
            ClaimsError::Damaged { lease, expected, found } => Text(
                Code::ERRCODE_DATA_CORRUPTED,
                format!("lease {lease} does not hold the claims that its payload names"),
                Some(format!(
                    "The payload names {expected} claims, {found} were found in the state that the lease left them in."
                )),
                Some(
                    "Somebody wrote into the tables of claims. Run claims.check() to see the damage; the lease is left as it is.",
                ),
            ),
            ClaimsError::Unreadable { what } => Text(
                Code::ERRCODE_DATA_CORRUPTED,
                "a stored payload cannot be read".into(),
                Some(format!("{what}.")),
                Some("Somebody wrote into the tables of claims. Run claims.check() to see the damage."),
            ),
            ClaimsError::Verification(error) => error.text(),
            ClaimsError::Capture(error) => error.text(),
            ClaimsError::GivenUp { .. }
            | ClaimsError::LeaseInRecovery
            | ClaimsError::NotAService { .. }
            | ClaimsError::ServerOfOther { .. }
            | ClaimsError::NoDblink
            | ClaimsError::ServiceUnreachable { .. }
            | ClaimsError::ServiceSilent { .. } => self.cell(),
            _ => self.lease(),
        }
    }

    /// What goes wrong in a cell's own database.
    fn cell(self) -> Text {
        match self {
            ClaimsError::GivenUp { lease } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("lease {lease} was given up by recovery"),
                Some("It was not tracked in time, and is or will be rolled back at the service.".into()),
                Some("Roll this transaction back, and repeat it with a new lease."),
            ),
            ClaimsError::LeaseInRecovery => Text(
                Code::ERRCODE_LOCK_NOT_AVAILABLE,
                "lease is being tracked or fenced by another open transaction".into(),
                None,
                Some("Roll this transaction back, and repeat it with a new lease."),
            ),
            ClaimsError::NotAService { server } => Text(
                Code::ERRCODE_UNDEFINED_OBJECT,
                "service is not a foreign server of dblink_fdw or postgres_fdw".into(),
                Some(format!("There is no such server \"{}\".", claims_model::problem::shortened(&server))),
                Some(
                    "Create it with CREATE SERVER ... FOREIGN DATA WRAPPER dblink_fdw, and a user mapping for the owner of claims; connection strings are not taken.",
                ),
            ),
            ClaimsError::ServerOfOther { server, owner } => Text(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                "permission denied: service is not an administrator's foreign server".into(),
                Some(format!("Server \"{server}\" belongs to role \"{owner}\".")),
                Some("Have an administrator own the server that leads to the shared database."),
            ),
            ClaimsError::NoDblink => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "extension \"dblink\" is not installed in this database".into(),
                Some("The service is called through it.".into()),
                Some("Have an administrator run CREATE EXTENSION dblink."),
            ),
            ClaimsError::ServiceUnreachable { server, detail } => Text(
                Code::ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION,
                format!("claims service \"{server}\" cannot be reached"),
                Some(detail),
                Some("Nothing was changed here. Repeat the call when the service is back."),
            ),
            ClaimsError::ServiceSilent { server, timeout } => Text(
                Code::ERRCODE_QUERY_CANCELED,
                format!("claims service \"{server}\" did not answer in time"),
                Some(format!("It was given {} ms.", timeout.as_millis())),
                Some("Repeat the transaction."),
            ),
            other => other.lease(),
        }
    }

    fn privilege(self) -> Text {
        match self {
            ClaimsError::UnknownCell { cell_id } => Text(
                Code::ERRCODE_NO_DATA_FOUND,
                format!("cell {cell_id} is not registered"),
                None,
                Some("Register it with claims.register_cell()."),
            ),
            ClaimsError::NotTheCell { cell_id, caller } => Text(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("permission denied for cell {cell_id}"),
                Some(format!("Role \"{caller}\" does not have the privileges of that cell's role.")),
                Some("Call as the cell's role, or have an administrator run claims.register_cell() for this role."),
            ),
            ClaimsError::NotAdmin { caller } => Text(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                "permission denied: only administrators of claims may do this".into(),
                Some(format!("Role \"{caller}\" does not have the privileges of the extension's owner.")),
                Some("Ask an administrator, or name one cell."),
            ),
            ClaimsError::NotTheOwner { caller } => Text(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                "permission denied: only the table's owner and administrators of claims may do this".into(),
                Some(format!("Role \"{caller}\" does not have the privileges of the table's owner.")),
                Some("Ask the table's owner, or an administrator."),
            ),
            other => other.lease(),
        }
    }

    fn shorter_hold(self) -> Text {
        match self {
            ClaimsError::NotHeld { kind, key, token } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("{kind} \"{}\" is not held with token {token}", shortened(&key)),
                Some("The claim has expired, was released or was taken over, or was never made.".into()),
                Some("Roll back what was done under it, and acquire the key again."),
            ),
            ClaimsError::StaleHold => stale("an expiring claim".into(), "The claim"),
            ClaimsError::CreateExists { queue, entity } => Text(
                Code::ERRCODE_UNIQUE_VIOLATION,
                format!("entity \"{}\" has a create request already", shortened(&entity)),
                Some(format!("Queue \"{queue}\" keeps at most one create request of an entity.")),
                Some("Send an update, or put a failed create back with claims.retry_requests()."),
            ),
            ClaimsError::NothingInHand { process } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("process {process} has no request in hand"),
                Some(
                    "It took none, settled them, took them in a transaction that has ended, or its hold was taken over."
                        .into(),
                ),
                Some(TAKE_AGAIN),
            ),
            ClaimsError::HoldBusy => Text(
                Code::ERRCODE_LOCK_NOT_AVAILABLE,
                "requests of the process are being extended or settled by another open transaction".into(),
                None,
                Some("Repeat the call when that transaction has ended."),
            ),
            ClaimsError::HoldExpired { process, expired, lost } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("the hold of process {process} has expired"),
                Some(match lost {
                    0 => format!("Of the requests that it held, {expired} count as new again."),
                    lost => format!(
                        "Of the requests that it held, {expired} count as new again, and {lost} were taken over."
                    ),
                }),
                Some(TAKE_AGAIN),
            ),
            other => other.lease(),
        }
    }

    fn lease(self) -> Text {
        const NEXT: &str = "Begin a new lease under a new uuid.";
        match self {
            ClaimsError::TableLocked => Text(
                Code::ERRCODE_LOCK_NOT_AVAILABLE,
                "another transaction has locked a table of claims".into(),
                None,
                Some("Repeat the call when that transaction has ended."),
            ),
            ClaimsError::Restricted => Text(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                "permission denied within a security-restricted operation".into(),
                Some(
                    "Index expressions, materialized views and the like run for whoever causes them, who did not write them."
                        .into(),
                ),
                Some("Call the function directly."),
            ),
            ClaimsError::LeaseBusy => Text(
                Code::ERRCODE_LOCK_NOT_AVAILABLE,
                "lease is being begun, fenced or settled by another open transaction".into(),
                None,
                Some(
                    "Repeat the call when that transaction has ended; claims.wait_timeout says how long to wait for it.",
                ),
            ),
            ClaimsError::RolledBack { lease } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("lease {lease} was rolled back"),
                None,
                Some(NEXT),
            ),
            ClaimsError::Committed { lease } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("lease {lease} was committed"),
                None,
                Some("To give its claims back, destroy them with a new batch."),
            ),
            ClaimsError::UnknownLease { lease } => Text(
                Code::ERRCODE_NO_DATA_FOUND,
                format!("lease {lease} does not exist"),
                None,
                Some(
                    "Outcomes are kept for claims.outcome_retention; claims.lease_outcome() tells how a lease of this cell ended.",
                ),
            ),
            ClaimsError::ForeignLease { lease } => {
                Text(Code::ERRCODE_UNIQUE_VIOLATION, format!("lease uuid {lease} is in use"), None, Some(NEXT))
            }
            ClaimsError::OtherRequest { lease } => Text(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("lease {lease} was begun with another request"),
                None,
                Some("Repeat a call with the same arguments, or begin a new lease under a new uuid."),
            ),
            ClaimsError::ContradictoryOutcomes { lease } => Text(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("lease {lease} is both to be committed and to be rolled back"),
                None,
                Some("Name each lease in one of the two lists."),
            ),
            ClaimsError::StaleLease { lease } => stale(format!("lease {lease}"), "The lease"),
            ClaimsError::StaleClaim => stale("a claim".into(), "A claim of the batch"),
            other => Text(Code::ERRCODE_DATA_CORRUPTED, format!("unexpected state: {other:?}"), None, None),
        }
    }
}

const TAKE_AGAIN: &str = "Roll back what was done for the requests, and take requests again.";

fn stale(what: String, subject: &str) -> Text {
    Text(
        Code::ERRCODE_T_R_SERIALIZATION_FAILURE,
        format!("could not serialize access to {what} due to concurrent update"),
        Some(format!("{subject} changed after this transaction took its snapshot.")),
        Some("Repeat the transaction."),
    )
}

fn conflicts(weightiest: Reason, count: usize, detail: String) -> Text {
    let buckets = if count == 1 { "one bucket".to_owned() } else { format!("{count} buckets") };
    let (code, hint) = match weightiest {
        Reason::NotOwner => (
            Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
            "A claim can be destroyed only by the cell that owns it: verify this cell's records.",
        ),
        Reason::Missing => (
            Code::ERRCODE_NO_DATA_FOUND,
            "There is no such claim to destroy: leave it out of the batch, or verify this cell's records.",
        ),
        Reason::Taken => (Code::ERRCODE_UNIQUE_VIOLATION, "The name is taken: choose another one."),
        Reason::Leased => (
            Code::ERRCODE_LOCK_NOT_AVAILABLE,
            "Another lease holds the claim: try again when it is settled, or recover it if it is this cell's own.",
        ),
        Reason::InFlight => {
            (Code::ERRCODE_LOCK_NOT_AVAILABLE, "Another open transaction is changing the claim: try again in a moment.")
        }
    };
    Text(code, format!("could not claim {buckets} of the batch"), Some(detail), Some(hint))
}
