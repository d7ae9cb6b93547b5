//! All errors that a call can raise.

use claims_model::{BadInput, Reason};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::{PgLogLevel, PgSqlErrorCode as Code};
use uuid::Uuid;

use super::access::AccessError;
use super::admin::AdminError;
use super::admission::AdmissionError;
use super::availability::AvailabilityError;
use super::capture::CaptureError;
use super::cell::{self, CellError};
use super::declare::{errors, text};
use super::distribution::DistributionError;
use super::feed::FeedError;
use super::hold::HoldError;
use super::ids::IdsError;
use super::import::ImportError;
use super::names::NamesError;
use super::text::Text;
use super::transfer::TransferError;
use super::verification::VerificationError;
use pg::altered::Altered;
use pg::error_context;
use pg::libpq::RemoteError;

errors! {
    pub enum ClaimsError {
        /// Input with a wrong form or size.
        BadInput(BadInput);
        /// The batch cannot have all its claims. `detail` is the JSON of the conflicts.
        Conflicts { decisive: Reason, count: usize, detail: String } => { remedy(decisive).0 }:
            ("could not claim {} of the batch", if count == 1 { "one bucket".to_owned() } else { format!("{count} buckets") }),
            detail { detail },
            hint ("{}", remedy(decisive).1);
        LeaseBusy => ERRCODE_LOCK_NOT_AVAILABLE: "lease is being begun, fenced or settled by another open transaction",
            hint "Repeat the call when that transaction has ended; claims.wait_timeout says how long to wait for it.";
        TableLocked => ERRCODE_LOCK_NOT_AVAILABLE: "another transaction has locked a table of claims",
            hint "Repeat the call when that transaction has ended.";
        RolledBack { lease: Uuid } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "lease {lease} was rolled back",
            hint "Begin a new lease under a new uuid.";
        Committed { lease: Uuid } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "lease {lease} was committed",
            hint "To give its claims back, destroy them with a new batch.";
        /// No lease of the calling cell has this uuid.
        UnknownLease { lease: Uuid } => ERRCODE_NO_DATA_FOUND: "lease {lease} does not exist",
            hint "Outcomes are kept for claims.outcome_retention; \
                claims.lease_outcome() tells how a lease of this cell ended.";
        /// A lease of another cell has this uuid.
        ForeignLease { lease: Uuid } => ERRCODE_UNIQUE_VIOLATION: "lease uuid {lease} is in use",
            hint "Begin a new lease under a new uuid.";
        OtherRequest { lease: Uuid } => ERRCODE_INVALID_PARAMETER_VALUE: "lease {lease} was begun with another request",
            hint "Repeat a call with the same arguments, or begin a new lease under a new uuid.";
        ContradictoryOutcomes { lease: Uuid } => ERRCODE_INVALID_PARAMETER_VALUE:
            "lease {lease} is both to be committed and to be rolled back",
            hint "Name each lease in one of the two lists.";
        /// The transaction's snapshot shows an older state of the lease.
        StaleLease { lease: Uuid } => ERRCODE_T_R_SERIALIZATION_FAILURE:
            "could not serialize access to lease {lease} due to concurrent update",
            detail "The lease changed after this transaction took its snapshot.",
            hint "Repeat the transaction.";
        /// The transaction's snapshot does not show how the lease ended, and never will.
        NotInSnapshot { lease: Uuid } => ERRCODE_ACTIVE_SQL_TRANSACTION: "lease {lease} has not ended in this transaction's snapshot",
            detail "Under REPEATABLE READ and SERIALIZABLE waiting does not change what a transaction sees.",
            hint "Call read_after() under READ COMMITTED, or before the transaction.";
        /// The transaction's snapshot shows an older state of a claim of the batch.
        StaleClaim => ERRCODE_T_R_SERIALIZATION_FAILURE: "could not serialize access to a claim due to concurrent update",
            detail "A claim of the batch changed after this transaction took its snapshot.",
            hint "Repeat the transaction.";
        Damaged { lease: Uuid, expected: usize, found: usize } => ERRCODE_DATA_CORRUPTED:
            "lease {lease} does not hold the claims that its payload names",
            detail "The payload names {expected} claims, {found} were found in the state that the lease left them in.",
            hint "Somebody wrote into the tables of claims. \
                Run claims.check() to see the damage; the lease is left as it is.";
        NoUniqueIndex { index: &'static str } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "there is no valid unique index on {index}",
            detail "It was dropped, is being built, or is of another kind: \
                it must be a btree for all rows, with the columns' own collations, and not deferrable.",
            hint "Create it again; where there is an invalid one, drop or reindex that.";
        /// The tables differ from those that the extension created, or hold values that it never writes.
        Altered(Altered);
        /// A payload or type table cannot be read any more.
        Unreadable { what: String } => ERRCODE_DATA_CORRUPTED: "a stored payload cannot be read",
            detail "{what}.",
            hint "Somebody wrote into the tables of claims. Run claims.check() to see the damage.";
        OtherVersion { installed: String, library: &'static str, is_older: bool } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
            "extension \"claims\" is version {installed}, but its library is version {library}",
            hint ("{}", match is_older {
                true => "Run ALTER EXTENSION claims UPDATE in this database.",
                false => "Reconnect, to load the library of the extension's version; where it is preloaded, restart the server.",
            });
        /// The transaction's snapshot is older than the update of the extension that its call has waited for.
        StaleExtension => ERRCODE_T_R_SERIALIZATION_FAILURE:
            "could not serialize access to extension \"claims\" due to its update",
            detail "The extension was updated after this transaction took its snapshot.",
            hint "Repeat the transaction.";
        /// The call has waited for an update that has dropped its function.
        Updated => ERRCODE_T_R_SERIALIZATION_FAILURE: "extension \"claims\" was updated during this call",
            detail "The called function has other arguments in the new version.",
            hint "Repeat the transaction.";
        /// The tables are distributed, or at least not all in this database.
        Distribution(DistributionError);
        Access(AccessError);
        Admin(AdminError);
        Admission(AdmissionError);
        Transfer(TransferError);
        Names(NamesError);
        Feed(FeedError);
        Hold(HoldError);
        Ids(IdsError);
        Cell(CellError);
        Verification(VerificationError);
        Import(ImportError);
        Availability(AvailabilityError);
        Capture(CaptureError);
    }
}

impl From<ClaimsError> for RemoteError {
    /// Returns an error of this database in the form of a service's. It names no server.
    fn from(error: ClaimsError) -> Self {
        let Text { code, message, detail, hint } = Text::from(error);
        RemoteError { sqlstate: error_context::sqlstate(code), message, detail, hint, server: String::new() }
    }
}

/// Returns the SQLSTATE and the HINT of a conflict.
fn remedy(reason: Reason) -> (Code, &'static str) {
    match reason {
        Reason::NotOwner => (
            Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
            "A claim can be destroyed only by the cell that owns it: verify this cell's records.",
        ),
        Reason::Missing => (
            Code::ERRCODE_NO_DATA_FOUND,
            "There is no such claim to destroy: leave it out of the batch, or verify this cell's records.",
        ),
        Reason::OtherSource => (
            Code::ERRCODE_NO_DATA_FOUND,
            "The claim belongs to another row than the one that is to give it up: verify this cell's records.",
        ),
        Reason::Taken => (Code::ERRCODE_UNIQUE_VIOLATION, "The name is taken: choose another one."),
        Reason::Reserved => (Code::ERRCODE_UNIQUE_VIOLATION, "The name is reserved: choose another one."),
        Reason::Confusable => {
            (Code::ERRCODE_UNIQUE_VIOLATION, "The name looks like another one that is taken: choose another one.")
        }
        Reason::Leased => (
            Code::ERRCODE_LOCK_NOT_AVAILABLE,
            "Another lease holds the claim: try again when it is settled, or recover it if it is this cell's own.",
        ),
        Reason::InFlight => {
            (Code::ERRCODE_LOCK_NOT_AVAILABLE, "Another open transaction is changing the claim: try again in a moment.")
        }
        Reason::Queued => (
            Code::ERRCODE_LOCK_NOT_AVAILABLE,
            "Other calls wait for the claim: set claims.lease_wait to wait in their order, or try again in a moment.",
        ),
    }
}

impl From<Altered> for Text {
    fn from(altered: Altered) -> Text {
        const UNDO: &str = "Somebody altered the tables of claims or wrote into them. Undo it, and run claims.check().";
        match altered {
            Altered::Column { name } => {
                text!(ERRCODE_DATATYPE_MISMATCH: "a table of claims is not as the extension has made it",
                detail "Column \"{name}\" is not there, or has another type.",
                hint "{UNDO}")
            }
            Altered::Null { name } => {
                text!(ERRCODE_DATA_CORRUPTED: "a table of claims holds what the extension never writes",
                detail "Column \"{name}\" is null.",
                hint "{UNDO}")
            }
        }
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

/// Raises a difference that `pg` found while it read the tables.
pub fn raise_altered(altered: Altered) {
    raise::<()>(Err(altered.into()));
}

/// Raises the error for a call whose function the update that it has waited for has dropped.
pub fn raise_updated() {
    raise::<()>(Err(ClaimsError::Updated));
}

/// Raises the error of a result, if it is one. Triggers need it, because pgrx would turn their errors into XX000.
pub fn raise<T>(result: Result<T, ClaimsError>) {
    if let Err(error) = result {
        error.report().report(PgLogLevel::ERROR);
    }
}

/// Returns the value, or raises the error. It is for callers that cannot return an error.
pub fn or_raise<T>(result: Result<T, ClaimsError>) -> T {
    result.unwrap_or_else(|error| {
        error.report().report(PgLogLevel::ERROR);
        unreachable!("an error was raised")
    })
}

impl ClaimsError {
    /// Returns whether the service has refused a call because of a limit of the cell. A smaller call, or one that comes later, succeeds.
    pub fn is_remote_limit(&self) -> bool {
        matches!(self, ClaimsError::Cell(CellError::Refused(error)) if error.sqlstate == *b"53400")
    }

    /// Returns whether another open transaction has locked a table or is changing a profile. When it has ended, a repeat of the
    /// call has another answer.
    pub fn ends_with_other_transaction(&self) -> bool {
        matches!(self, ClaimsError::TableLocked | ClaimsError::Names(NamesError::ProfileChanging))
    }

    /// Returns the report that PostgreSQL raises.
    pub fn report(self) -> ErrorReport {
        match &self {
            ClaimsError::Cell(CellError::Refused(error)) => cell::complete(error, None),
            ClaimsError::Cell(CellError::RefusedSave(refused)) => cell::complete(&refused.error, refused.fields()),
            ClaimsError::Capture(CaptureError::ClaimedTwice(twice)) => twice.complete(),
            _ => {}
        }
        Text::from(self).report()
    }
}
