//! Calls that present and adopt epochs.

use std::time::Duration;

use claims_model::epoch::StoredEpoch;
use claims_model::place::Place;

use super::presented::{Presented, may_be_outdated};
use super::question::question;
use super::{Service, own_place};
use crate::cell::errors::CellError;
use crate::cell::own_epochs;
use crate::kernel::error::ClaimsError;

/// Largest number of attempts: a pass of this database may replace the epoch during each of them.
const ATTEMPTS: usize = 5;

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
    pub fn present_epoch(&self, presented: StoredEpoch, how: Presenting, timeout: Duration) -> Result<(), ClaimsError> {
        let (cell_id, StoredEpoch { epoch, predecessor }) = (self.cell_id, presented);
        let reason = if let Presenting::Adopted(reason) = how { Some(reason) } else { None };
        let Place { id, lineage, timeline } = own_place::own();
        let present = question! {
            "SELECT claims.present_epoch({cell_id}, {epoch}, {predecessor}, {reason}, {id}, {lineage}, {timeline}, {address}, {is_new})",
            cell_id, epoch, predecessor, reason, id, lineage, timeline, address = own_place::address(),
            is_new = !matches!(how, Presenting::Stored)
        };
        match self.ask_one(present, timeout, |(_,): (Option<String>,)| Ok(())) {
            Err(error) if matches!(error.of(), Some(CellError::OlderService { .. })) => {
                // A service of version 1.1 asks for no place.
                let present = question! {
                    "SELECT claims.present_epoch({cell_id}, {epoch}, {predecessor}, {reason})",
                    cell_id, epoch, predecessor, reason
                };
                self.ask_one(present, timeout, |(_,): (Option<String>,)| Ok(()))
            }
            answer => answer,
        }
    }

    /// Makes a call with the epoch that this database has committed for the service, in the current transaction. If the service refuses it, and
    /// this database has another epoch, the call is repeated with that one: a pass has presented it meanwhile, or it is that of another foreign
    /// server, which leads to the same service. If it has none, it presents its place within what is left of `limit`, and repeats the call if the
    /// service follows it there: a standby that was promoted. Returns the last epoch, too.
    pub(super) fn presenting<T>(
        &self,
        limit: Duration,
        call: impl Fn(Presented) -> Result<T, ClaimsError>,
    ) -> Result<(Presented, T), ClaimsError> {
        let mut presented = self.first_presented();
        let mut refused = Vec::new();
        let mut has_shown = false;
        loop {
            let result = call(presented);
            if refused.len() + 1 >= ATTEMPTS || !result.as_ref().is_err_and(may_be_outdated) {
                return result.map(|value| (presented, value));
            }
            refused.push(presented);
            let candidates = own_epochs::committed(self.cell_id, self.server).candidates();
            if let Some(other) = candidates.iter().find(|candidate| !refused.contains(candidate)) {
                presented = *other;
                continue;
            }
            let show = |stored| self.present_epoch(stored, Presenting::Stored, self.time_left(limit)).is_ok();
            match candidates.into_iter().flatten().find(|candidate| !has_shown && show(*candidate)) {
                None => return result.map(|value| (presented, value)),
                Some(followed) => (presented, has_shown) = (Some(followed), true),
            }
        }
    }

    /// Returns the epoch that the next call presents.
    pub(super) fn first_presented(&self) -> Presented {
        own_epochs::committed(self.cell_id, self.server).candidates()[0]
    }
}
