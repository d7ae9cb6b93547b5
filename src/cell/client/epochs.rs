//! Calls that present and adopt epochs.

use std::time::Duration;

use claims_model::epoch::StoredEpoch;
use claims_model::place::Place;

use super::question::question;
use super::{Service, own_place};
use crate::cell::errors::CellError;
use crate::error::ClaimsError;

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

    /// Returns a function that presents an epoch with the place of this database, within what is left of a limit. It returns whether the
    /// service follows it, or would follow it.
    pub(super) fn shower(&self, cell_id: i64, limit: Duration) -> impl Fn(StoredEpoch) -> bool {
        move |stored| self.present_epoch(cell_id, stored, Presenting::Stored, self.time_left(limit)).is_ok()
    }
}
