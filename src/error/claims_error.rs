//! All errors that a call can raise.

use claims_model::{BadInput, Reason};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::{PgLogLevel, PgSqlErrorCode as Code, function_name};
use uuid::Uuid;

use super::access::AccessError;
use super::admin::AdminError;
use super::admission::AdmissionError;
use super::bad_input::bad_input;
use super::capture::CaptureError;
use super::cell::{self, CellError};
use super::distribution::DistributionError;
use super::feed::FeedError;
use super::hold::HoldError;
use super::names::NamesError;
use super::text::{Text, stale};
use super::transfer::TransferError;
use super::verification::VerificationError;
use crate::pg::altered::Altered;

/// An error of a call.
#[derive(Debug)]
pub enum ClaimsError {
    /// Input with a wrong form or size.
    BadInput(BadInput),
    /// The batch cannot have all its claims. `detail` is the JSON of the conflicts.
    Conflicts {
        weightiest: Reason,
        count: usize,
        detail: String,
    },
    /// Another open transaction is beginning, fencing or settling the lease.
    LeaseBusy,
    /// Another transaction has locked a whole table.
    TableLocked,
    /// The lease was rolled back.
    RolledBack {
        lease: Uuid,
    },
    /// The lease was committed.
    Committed {
        lease: Uuid,
    },
    /// No lease of the calling cell has this uuid.
    UnknownLease {
        lease: Uuid,
    },
    /// A lease of another cell has this uuid.
    ForeignLease {
        lease: Uuid,
    },
    /// The lease was begun with another request.
    OtherRequest {
        lease: Uuid,
    },
    /// One call names a lease for both outcomes.
    ContradictoryOutcomes {
        lease: Uuid,
    },
    /// The transaction's snapshot shows an older state of the lease.
    StaleLease {
        lease: Uuid,
    },
    /// The transaction's snapshot does not show how the lease ended, and never will.
    NotInSnapshot {
        lease: Uuid,
    },
    /// The transaction's snapshot shows an older state of a claim of the batch.
    StaleClaim,
    /// A lease does not hold the claims of its payload: somebody wrote into the tables.
    Damaged {
        lease: Uuid,
        expected: usize,
        found: usize,
    },
    /// The index that is probed does not exist or is not valid.
    NoUniqueIndex {
        index: &'static str,
    },
    /// The tables differ from those that the extension created, or hold values that it never writes.
    Altered(Altered),
    /// A payload or type table cannot be read any more.
    Unreadable {
        what: String,
    },
    /// The library and the extension in this database have different versions.
    OtherVersion {
        installed: String,
        library: &'static str,
        is_older: bool,
    },
    /// The tables are distributed, or at least not all in this database.
    Distribution(DistributionError),
    Access(AccessError),
    Admin(AdminError),
    Admission(AdmissionError),
    Transfer(TransferError),
    Names(NamesError),
    Feed(FeedError),
    Hold(HoldError),
    Cell(CellError),
    Verification(VerificationError),
    Capture(CaptureError),
}

/// Implements the conversions of errors that have enums of their own.
macro_rules! kinds {
    ($($kind:ident($error:ident)),* $(,)?) => {
        $(
            impl From<$error> for ClaimsError {
                fn from(error: $error) -> Self {
                    ClaimsError::$kind(error)
                }
            }
        )*
    };
}

kinds!(
    Distribution(DistributionError),
    Access(AccessError),
    Admin(AdminError),
    Admission(AdmissionError),
    Transfer(TransferError),
    Names(NamesError),
    Feed(FeedError),
    Hold(HoldError),
    Cell(CellError),
    Verification(VerificationError),
    Capture(CaptureError),
);

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

/// Raises a difference that `pg` found while it read the tables.
pub fn raise_altered(altered: Altered) {
    raise::<()>(Err(ClaimsError::Altered(altered)));
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
    /// Returns the report that PostgreSQL raises.
    pub fn report(self) -> ErrorReport {
        if let ClaimsError::Cell(CellError::Refused(error)) = self {
            return cell::refusal(error);
        }
        let own_hint = match &self {
            ClaimsError::Cell(CellError::BreakerOpen { next_try, .. }) => {
                Some(format!("It is tried again at {}. Repeat the call then.", next_try.text()))
            }
            ClaimsError::Admission(error) => error.hint(),
            _ => None,
        };
        let Text(code, message, detail, hint) = self.text();
        let report = ErrorReport::new(code, message, function_name!());
        let report = match detail {
            Some(detail) => report.set_detail(detail),
            None => report,
        };
        match own_hint.or_else(|| hint.map(str::to_owned)) {
            Some(hint) => report.set_hint(hint),
            None => report,
        }
    }

    pub(super) fn text(self) -> Text {
        const NEXT: &str = "Begin a new lease under a new uuid.";
        match self {
            ClaimsError::BadInput(bad) => bad_input(bad),
            ClaimsError::OtherVersion { installed, library, is_older } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("extension \"claims\" is version {installed}, but its library is version {library}"),
                None,
                Some(if is_older {
                    "Run ALTER EXTENSION claims UPDATE in this database."
                } else {
                    "Reconnect, to load the library of the extension's version; where it is preloaded, restart the server."
                }),
            ),
            ClaimsError::Distribution(error) => error.text(),
            ClaimsError::Access(error) => error.text(),
            ClaimsError::Admin(error) => error.text(),
            ClaimsError::Admission(error) => error.text(),
            ClaimsError::Names(error) => error.text(),
            ClaimsError::Transfer(error) => error.text(),
            ClaimsError::Feed(error) => error.text(),
            ClaimsError::Hold(error) => error.text(),
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
            ClaimsError::Altered(Altered::Column { name }) => Text(
                Code::ERRCODE_DATATYPE_MISMATCH,
                "a table of claims is not as the extension has made it".into(),
                Some(format!("Column \"{name}\" is not there, or has another type.")),
                Some(ALTERED),
            ),
            ClaimsError::Altered(Altered::Null { name }) => Text(
                Code::ERRCODE_DATA_CORRUPTED,
                "a table of claims holds what the extension never writes".into(),
                Some(format!("Column \"{name}\" is null.")),
                Some(ALTERED),
            ),
            ClaimsError::NoUniqueIndex { index } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("there is no valid unique index on {index}"),
                Some("It was dropped, is being built, or is of another kind: it must be a btree for all rows, with the columns' own collations, and not deferrable.".into()),
                Some("Create it again; where there is an invalid one, drop or reindex that."),
            ),
            ClaimsError::Verification(error) => error.text(),
            ClaimsError::Capture(error) => error.text(),
            ClaimsError::Cell(error) => error.text(),
            ClaimsError::TableLocked => Text(
                Code::ERRCODE_LOCK_NOT_AVAILABLE,
                "another transaction has locked a table of claims".into(),
                None,
                Some("Repeat the call when that transaction has ended."),
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
            ClaimsError::NotInSnapshot { lease } => Text(
                Code::ERRCODE_ACTIVE_SQL_TRANSACTION,
                format!("lease {lease} has not ended in this transaction's snapshot"),
                Some("Under REPEATABLE READ and SERIALIZABLE waiting does not change what a transaction sees.".to_owned()),
                Some("Call read_after() under READ COMMITTED, or before the transaction."),
            ),
            ClaimsError::StaleClaim => stale("a claim".into(), "A claim of the batch"),
        }
    }
}

const ALTERED: &str = "Somebody altered the tables of claims or wrote into them. Undo it, and run claims.check().";

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
    };
    Text(code, format!("could not claim {buckets} of the batch"), Some(detail), Some(hint))
}
