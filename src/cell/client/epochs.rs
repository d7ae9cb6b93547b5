//! Calls that present and adopt epochs.

use std::time::Duration;

use claims_model::epoch::StoredEpoch;

use super::parameters::{number, text};
use super::question::Question;
use super::{Service, own_place};
use crate::error::{CellError, ClaimsError};
use pg::libpq::Expected;

const PRESENT: &str =
    "SELECT claims.present_epoch($1::pg_catalog.int8, $2::pg_catalog.int8, $3::pg_catalog.int8, $4::pg_catalog.text, $5::pg_catalog.int8,
                  $6::pg_catalog.int8, $7::pg_catalog.int4, $8::pg_catalog.text, $9::pg_catalog.bool)";
/// The call of a service of version 1.1, which asks for no place.
const PRESENT_ONLY: &str =
    "SELECT claims.present_epoch($1::pg_catalog.int8, $2::pg_catalog.int8, $3::pg_catalog.int8, $4::pg_catalog.text)";

/// How an epoch is presented.
#[derive(Debug, Clone, Copy)]
pub enum Presenting<'r> {
    /// An epoch that was made before, here or in the database of which this one is a copy.
    Stored,
    /// An epoch that was made here for this presentation.
    New,
    /// Like `New`, and the service follows this database whatever another one has presented, for this reason.
    Adopted(&'r str),
}

impl Service<'_> {
    /// Presents an epoch. Raises an error if another database acts as the cell.
    pub fn present_epoch(
        &self,
        cell_id: i64,
        presented: StoredEpoch,
        how: Presenting,
        timeout: Duration,
    ) -> Result<(), ClaimsError> {
        let StoredEpoch { epoch, predecessor } = presented;
        let reason = if let Presenting::Adopted(reason) = how { text(reason) } else { None };
        let values = [number(cell_id), number(epoch), predecessor.and_then(number), reason];
        let expected = || Expected::one_row(1);
        let own = own_place::own();
        let place = [number(own.id), number(own.lineage), number(own.timeline.into()), text(&own_place::address())];
        let is_new = text(if matches!(how, Presenting::Stored) { "f" } else { "t" });
        let all: Vec<_> = values.iter().cloned().chain(place).chain([is_new]).collect();
        let question = Question { text: PRESENT, values: &all, expected: expected() };
        match self.ask(question, timeout, |answer| answer.only(|_| Ok(()))) {
            Err(ClaimsError::Cell(CellError::OlderService { .. })) => {
                let question = Question { text: PRESENT_ONLY, values: &values, expected: expected() };
                self.ask(question, timeout, |answer| answer.only(|_| Ok(())))
            }
            answer => answer,
        }
    }

    /// Returns a function that presents an epoch with the place of this database, within what is left of a limit. It returns whether the
    /// service follows it, or would follow it.
    pub(super) fn shower(&self, cell_id: i64, limit: Duration) -> impl Fn(StoredEpoch) -> bool {
        move |stored| self.present_epoch(cell_id, stored, Presenting::Stored, self.time_left(limit)).is_ok()
    }
}
