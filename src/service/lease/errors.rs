//! Errors of leases.

use claims_model::Reason;
use pgrx::{PgLogLevel, PgSqlErrorCode as Code};
use uuid::Uuid;

use crate::kernel::error::{ClaimsError, TablesError, errors, text};
use crate::service::errors::NamingError;

errors! {
    /// The reason why a lease cannot begin or end.
    pub enum LeaseError {
        /// The batch cannot have all its claims. `detail` is the JSON of the conflicts.
        Conflicts { decisive: Reason, count: usize, detail: String } => { remedy(decisive).0 }:
            ("could not claim {} of the batch", if count == 1 { "one bucket".to_owned() } else { format!("{count} buckets") }),
            detail { detail },
            hint ("{}", remedy(decisive).1);
        OfUnique { name: String } => ERRCODE_INVALID_PARAMETER_VALUE: "claims of type \"{name}\" cannot be changed by hand",
            detail "They are those of unique columns, and follow the rows of their tables.",
            hint "Use another type.";
        Busy => ERRCODE_LOCK_NOT_AVAILABLE: "lease is being begun, fenced or settled by another open transaction",
            hint "Repeat the call when that transaction has ended; claims.wait_timeout says how long to wait for it.";
        RolledBack { lease: Uuid } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "lease {lease} was rolled back",
            hint "Begin a new lease under a new uuid.";
        Committed { lease: Uuid } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "lease {lease} was committed",
            hint "To give its claims back, destroy them with a new batch.";
        /// No lease of the calling cell has this uuid.
        Unknown { lease: Uuid } => ERRCODE_NO_DATA_FOUND: "lease {lease} does not exist",
            hint "Outcomes are kept for claims.outcome_retention; \
                claims.lease_outcome() tells how a lease of this cell ended.";
        /// A lease of another cell has this uuid.
        Foreign { lease: Uuid } => ERRCODE_UNIQUE_VIOLATION: "lease uuid {lease} is in use",
            hint "Begin a new lease under a new uuid.";
        OtherRequest { lease: Uuid } => ERRCODE_INVALID_PARAMETER_VALUE: "lease {lease} was begun with another request",
            hint "Repeat a call with the same arguments, or begin a new lease under a new uuid.";
        ContradictoryOutcomes { lease: Uuid } => ERRCODE_INVALID_PARAMETER_VALUE:
            "lease {lease} is both to be committed and to be rolled back",
            hint "Name each lease in one of the two lists.";
        /// The transaction's snapshot shows an older state of the lease.
        Stale { lease: Uuid } => ERRCODE_T_R_SERIALIZATION_FAILURE:
            "could not serialize access to lease {lease} due to concurrent update",
            detail "The lease changed after this transaction took its snapshot.",
            hint "Repeat the transaction.";
        /// The transaction's snapshot shows an older state of a claim of the batch.
        StaleClaim => ERRCODE_T_R_SERIALIZATION_FAILURE: "could not serialize access to a claim due to concurrent update",
            detail "A claim of the batch changed after this transaction took its snapshot.",
            hint "Repeat the transaction.";
        Damaged { lease: Uuid, expected: usize, found: usize } => ERRCODE_DATA_CORRUPTED:
            "lease {lease} does not hold the claims that its payload names",
            detail "The payload names {expected} claims, {found} were found in the state that the lease left them in.",
            hint "Somebody wrote into the tables of claims. \
                Run claims.check() to see the damage; the lease is left as it is.";
        /// `outcome` is how the lease ended, or `None` if it is unknown.
        NotOutstanding { lease: Uuid, outcome: Option<&'static str> } => ERRCODE_NO_DATA_FOUND:
            "lease {lease} of this cell is not outstanding",
            detail ("It is {}.", outcome.unwrap_or("not known")),
            hint "The view claims.leases has those that are.";
        /// The uuid belongs to a transfer, and the call needs a lease.
        NotALease { transfer: Uuid } => ERRCODE_NO_DATA_FOUND: "{transfer} is not a lease but a transfer",
            hint "The view claims.transfers shows it; claims.cancel_transfer() or claims.finish_transfer() ends it.";
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
        Reason::Quarantined => (
            Code::ERRCODE_UNIQUE_VIOLATION,
            "The name was given up and is kept back until available_at: choose another one.",
        ),
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

impl ClaimsError {
    /// Returns whether another open transaction has locked a table or is changing a profile. When it has ended, a repeat of the
    /// call has another answer.
    pub fn ends_with_other_transaction(&self) -> bool {
        matches!(self.of(), Some(TablesError::Locked)) || matches!(self.of(), Some(NamingError::ProfileChanging))
    }
}

/// Tells the client that a uuid was fenced.
pub fn notice_of_fence(lease: Uuid) {
    text!(ERRCODE_SUCCESSFUL_COMPLETION: "nothing was outstanding under lease {lease}",
        detail "It is fenced: no begin_update can use it any more.",
        hint "If there is a lease to be rolled back, look for its uuid with claims.list_leases().")
    .send(PgLogLevel::NOTICE);
}
