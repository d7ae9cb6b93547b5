//! Errors and warnings of verification.

use pgrx::PgLogLevel;
use uuid::Uuid;

use crate::kernel::error::{errors, text};

errors! {
    /// The reason why verification fails.
    pub enum VerificationError {
        NothingClaimed { source_type: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
            "no column is claimed with source type \"{source_type}\"",
            detail "Verification would take every claim of that type as extra.",
            hint "Declare the columns with claims.claim_attribute(), or name another source type.";
        OldSnapshot => ERRCODE_FEATURE_NOT_SUPPORTED: "verification needs a READ COMMITTED transaction",
            detail "Another isolation level would show it rows as they were when the transaction began.",
            hint "Begin the transaction with ISOLATION LEVEL READ COMMITTED.";
        /// As many cells verify at the service as may at the same time.
        NoSlot { cell_id: i64 } => ERRCODE_LOCK_NOT_AVAILABLE: "cell {cell_id} has no slot for verification",
            detail "As many other cells verify at the service as claims.verification_slots allows there.",
            hint "The worker tries again by itself.";
        OtherService { pass: Uuid, service: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
            "workers of verification {pass} ask service \"{service}\"",
            detail "A shared verification compares the claims of one service.",
            hint "Name this service, or begin another verification when this one has ended.";
        /// A call that names no service, where automatic mode knows none for a type.
        NoService { source_type: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
            "no service is known that has the claims of source type \"{source_type}\"",
            detail "Automatic mode is off, is on for another cell, or claims these names in this database.",
            hint "Name the cell and a foreign server: claims.unclaimed_rows(source_type, cell_id, service).";
        BeingBegun => ERRCODE_LOCK_NOT_AVAILABLE: "verification is being begun by another open transaction",
            hint "Repeat the call when that transaction has ended.";
        UnknownPass { pass: Uuid } => ERRCODE_NO_DATA_FOUND: "verification {pass} does not exist",
            detail "A shared verification is forgotten a day after its end.",
            hint "Begin one with claims.begin_verification().";
    }
}

/// Warns the client and the log about rows that cannot have claims.
pub fn warn_of_rows(source_type: &str, unclaimable: i64, doubles: i64) {
    let rows = if unclaimable + doubles == 1 { "1 row".to_owned() } else { format!("{} rows", unclaimable + doubles) };
    text!(ERRCODE_WARNING: "{rows} of source type \"{source_type}\" cannot have the claims that they call for",
        detail "{unclaimable} have a value that is empty, too long or refused by the profile of its type, \
            or a subject or source whose key is null, empty or longer than 128 characters; \
            {doubles} have a value that another row has, too.",
        hint "claims.list_discrepancies() lists them as impossible and doubled. \
            Change those rows, or leave them out by the condition of the claimed attribute.")
    .send(PgLogLevel::WARNING);
}

/// Warns the client and the log that a worker has lost its range.
pub fn warn_of_lost_range(worker: &str) {
    text!(ERRCODE_WARNING: "worker \"{worker}\" has lost the range that it was verifying",
        detail "Its hold had expired, or another session uses the same name. \
            What it did there is done again by whoever has the range now.",
        hint "If that comes back, give a longer hold_for; give every session a name of its own.")
    .send(PgLogLevel::WARNING);
}
