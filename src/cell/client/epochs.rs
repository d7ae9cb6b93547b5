//! Calls about which database acts as a cell.

use std::time::Duration;

use claims_model::epoch::KeptEpoch;

use super::Service;
use super::parameters::{number, text};
use crate::error::ClaimsError;

const PRESENT: &str =
    "SELECT claims.present_epoch($1::pg_catalog.int8, $2::pg_catalog.int8, $3::pg_catalog.int8, $4::pg_catalog.text)";

impl Service<'_> {
    /// Raises where another database acts as the cell; not where there is a reason to become it all the same.
    pub fn present_epoch(
        &self,
        cell_id: i64,
        presented: KeptEpoch,
        adopt_because: Option<&str>,
        timeout: Duration,
    ) -> Result<(), ClaimsError> {
        let KeptEpoch { epoch, predecessor } = presented;
        let values = [number(cell_id), number(epoch), predecessor.and_then(number), adopt_because.and_then(text)];
        self.call(PRESENT, &values, timeout).map(|_| ())
    }
}
