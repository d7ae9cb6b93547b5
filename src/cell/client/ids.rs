//! Calls about ranges of ids.

use std::time::Duration;

use claims_model::ids::{Ids, MAX_ID};

use super::Service;
use super::answer::wrong;
use super::question::{Question, question};
use crate::kernel::error::ClaimsError;

/// The things that this database may do with a range, as the service says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeState {
    Leased,
    /// Another database of the cell was adopted since, or another cell has some of the ids.
    Forbidden,
    /// The service has no record of it.
    Unknown,
}

impl Service<'_> {
    /// Leases up to `size` ids up to `at_most`, or as many as the space allows in one range, after the range that ends with `continue_after`, if possible. Each call leases another
    /// range: if the answer is lost, so is the range. A range that overlaps one of `existing` is a wrong answer.
    pub fn lease_id_range(
        &self,
        id_space: &str,
        (size, continue_after, at_most): (i64, i64, i64),
        existing: &[Ids],
        timeout: Duration,
    ) -> Result<Ids, ClaimsError> {
        let cell_id = self.cell_id;
        let lease = question! {
            "SELECT pg_catalog.lower(r), pg_catalog.upper(r) OPERATOR(pg_catalog.-) 1
               FROM claims.lease_id_range({cell_id}, {id_space}, {size}, {continue_after}, {at_most}, true) r",
            cell_id, id_space, size, continue_after, at_most
        };
        let is_free = |range: Ids| existing.iter().all(|other| range.1 < other.0 || other.1 < range.0);
        self.ask_one(lease, timeout, |(first, last): Ids| {
            // The difference of two ids can exceed an i64.
            let is_of_size = first <= last && last.checked_sub(first).is_some_and(|more| more < size);
            let is_fit = is_of_size && last <= at_most.min(MAX_ID) && is_free((first, last));
            if is_fit { Ok((first, last)) } else { Err(wrong(format!("{first} to {last}"))) }
        })
    }

    /// Has the service confirm a range that it has just given. Anything but that it is leased to this cell is a wrong answer: then the
    /// range was another one than that which the service has recorded.
    pub fn confirm_new_range(&self, id_space: &str, range: Ids, timeout: Duration) -> Result<(), ClaimsError> {
        self.ask_one(self.confirm(id_space, range), timeout, |(state,): (String,)| match state.as_str() {
            "leased" => Ok(()),
            other => Err(wrong(format!("{other}: {} to {}", range.0, range.1))),
        })
    }

    /// Asks whether this database may use a range.
    pub fn confirm_id_range(&self, id_space: &str, range: Ids, timeout: Duration) -> Result<RangeState, ClaimsError> {
        self.ask_one(self.confirm(id_space, range), timeout, |(state,): (String,)| match state.as_str() {
            "leased" => Ok(RangeState::Leased),
            "closed" | "foreign" => Ok(RangeState::Forbidden),
            "unknown" => Ok(RangeState::Unknown),
            other => Err(wrong(other)),
        })
    }

    fn confirm(&self, id_space: &str, (first, last): Ids) -> Question {
        let cell_id = self.cell_id;
        question! { "SELECT claims.confirm_id_range({cell_id}, {id_space}, {first}, {last})", cell_id, id_space, first, last }
    }
}
