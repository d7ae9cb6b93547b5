//! The call that claims names of existing rows.

use std::time::Duration;

use super::Service;
use super::answer::AnswerRow;
use super::naming::RequiredNaming;
use super::parameters::{number, text};
use super::question::Question;
use crate::error::ClaimsError;
use pg::libpq::{Expected, Mismatch};

/// The service cancels its statement this much earlier than the cell gives up, so that it claims nothing after the cell has released
/// its row locks.
const CANCEL_MARGIN: Duration = Duration::from_millis(500);

const IMPORT: &str = "SELECT place, outcome, holder_cell_id
             FROM claims.require_naming($4::pg_catalog.text, $5::pg_catalog.text[], $6::pg_catalog.text[]),
                  claims.import_records($1::pg_catalog.int8, $2::pg_catalog.text, $3::pg_catalog.bool)";

/// The reasons why the service does not claim a record.
pub const REASONS: [&str; 7] = ["held_by_other", "other_source", "confusable", "reserved", "busy", "leased", "recent"];

/// A record that the service did not claim.
pub struct RefusedRecord {
    /// Position in the list, from 0.
    pub place: usize,
    pub reason: String,
    /// The cell that has the name.
    pub holder: Option<i64>,
}

impl RefusedRecord {
    /// Returns whether another attempt may succeed: a lease or another transaction holds the name.
    pub fn is_temporary(&self) -> bool {
        matches!(self.reason.as_str(), "busy" | "leased" | "recent")
    }
}

/// A JSON list of records for an import, with their number.
pub struct ImportList<'l> {
    pub json: &'l str,
    pub records: usize,
}

impl Service<'_> {
    /// Claims records without a lease. Returns those that were not claimed. With `preview` it claims none.
    pub fn import_records(
        &self,
        cell_id: i64,
        list: &ImportList,
        naming: &RequiredNaming,
        preview: bool,
        timeout: Duration,
    ) -> Result<Vec<RefusedRecord>, ClaimsError> {
        let [unicode, bucket_types, profiles] = naming.values();
        let preview = text(if preview { "true" } else { "false" });
        let values = [number(cell_id), text(list.json), preview, unicode, bucket_types, profiles];
        let question = Question { text: IMPORT, values: &values, expected: Expected::rows(0..=list.records, 3) };
        let refused = |row: &AnswerRow| {
            let place = row.number(1)?;
            let in_list = usize::try_from(place).ok().filter(|place| *place < list.records);
            let place = in_list.ok_or_else(|| Mismatch::Value(place.to_string()))?;
            let reason = row.word_or_null(2, &REASONS)?.ok_or_else(|| Mismatch::Value("null".into()))?;
            let holder = row.text(3).map(|_| row.number(3)).transpose()?;
            Ok(RefusedRecord { place, reason: reason.to_owned(), holder })
        };
        self.ask_within(timeout - CANCEL_MARGIN, question, timeout, |answer| answer.map(refused))
    }
}
