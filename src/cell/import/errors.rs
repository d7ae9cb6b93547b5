//! Errors and notices of imports.

use std::time::Instant;

use claims_model::problem::shortened;
use pgrx::PgLogLevel;

use super::statements::{ImportKey, ImportState};
use crate::kernel::error::{errors, text};

errors! {
    /// The reason why an import fails.
    pub enum ImportError {
        OldSnapshot => ERRCODE_FEATURE_NOT_SUPPORTED: "import needs a READ COMMITTED transaction",
            detail "Another isolation level would show it rows as they were when the transaction began.",
            hint "Call it outside of a transaction, with default_transaction_isolation read committed.";
        Running { source_type: String, pid: i32 } => ERRCODE_LOCK_NOT_AVAILABLE:
            "source type \"{source_type}\" is being imported by another session",
            detail "It is process {pid}.",
            hint "Wait for its end, which claims.imports shows, or cancel it: an import continues where it stopped.";
        OtherService { source_type: String, service: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
            "no name of source type \"{source_type}\" is claimed at service \"{service}\"",
            detail "claims.automatic() has given the bucket types of its columns to other services.",
            hint "Name the service of one of these bucket types.";
        NotBegun { source_type: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
            ("import of source type \"{}\" has not begun in this session", shortened(&source_type)),
            hint "Use CALL claims.import_claims().";
    }
}

/// The progress of an import, for a notice.
pub struct ImportProgress<'p> {
    pub source_type: &'p str,
    pub rows: i64,
    pub estimated: i64,
    pub collisions: i64,
    /// Rows a second.
    pub rate: f64,
    /// Estimated remaining seconds, or `None` if the import has ended.
    pub remaining: Option<f64>,
}

impl<'p> ImportProgress<'p> {
    /// Returns the progress of an import that works at `rate`.
    pub fn of(key: &'p ImportKey, state: &ImportState, rate: f64, is_finished: bool) -> Self {
        let remaining = (state.estimated - state.rows_done).max(0) as f64 / rate.max(1.0);
        ImportProgress {
            source_type: &key.source_type,
            rows: state.rows_done,
            estimated: state.estimated.max(state.rows_done),
            collisions: state.collisions,
            rate,
            remaining: (!is_finished).then_some(remaining),
        }
    }
}

/// Returns the rate of a call that has read so many rows since it began.
pub fn rows_a_second(rows: i64, began: Instant) -> f64 {
    rows as f64 / began.elapsed().as_secs_f64().max(0.001)
}

/// Tells the client how far an import is.
pub fn notice_of_import(progress: &ImportProgress) {
    let ImportProgress { source_type, rows, estimated, collisions, rate, remaining } = *progress;
    let state = match remaining {
        Some(seconds) => format!("about {} remaining", duration(seconds)),
        None => "finished".to_owned(),
    };
    text!(ERRCODE_SUCCESSFUL_COMPLETION:
        "{source_type}: {rows} of about {estimated} rows, {rate:.0} rows/s, {collisions} collisions, {state}")
    .send(PgLogLevel::NOTICE);
}

fn duration(seconds: f64) -> String {
    let seconds = seconds.clamp(0.0, 1e9) as u64;
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
