//! The call that claims names of existing rows.

use std::time::Duration;

use super::Service;
use super::answer::{one_of, wrong};
use super::naming::RequiredNaming;
use super::question::question;
use crate::kernel::error::ClaimsError;

/// The reasons why the service does not claim a record.
pub const REASONS: [&str; 8] =
    ["held_by_other", "other_source", "confusable", "reserved", "quarantined", "busy", "leased", "recent"];

/// The reason why the service did not claim a record.
#[derive(Clone)]
pub struct ImportRefusal {
    pub reason: String,
    /// The cell that has the name.
    pub holder: Option<i64>,
}

impl ImportRefusal {
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
    /// Claims records without a lease. Returns the positions in the list, from 0, of those that were not claimed. With `preview` it claims none.
    pub fn import_records(
        &self,
        list: &ImportList,
        naming: &RequiredNaming,
        preview: bool,
        timeout: Duration,
    ) -> Result<Vec<(usize, ImportRefusal)>, ClaimsError> {
        let import = question! {
            "SELECT place, outcome, holder_cell_id
               FROM claims.require_naming({naming}), claims.import_records({cell_id}, {records}, {preview})",
            cell_id = self.cell_id, records = list.json, preview, naming = *naming
        };
        let refused = |(place, reason, holder): (i64, Option<String>, Option<i64>)| {
            let in_list = usize::try_from(place).ok().filter(|place| *place < list.records);
            let reason = one_of(reason, &REASONS)?.ok_or_else(|| wrong("null"))?;
            Ok((in_list.ok_or_else(|| wrong(place))?, ImportRefusal { reason, holder }))
        };
        self.ask_rows(import.attributed(), 0..=list.records, timeout, refused)
    }
}
