//! The epoch that each save presents, with which the service makes sure that only one database acts as a cell.

use claims_model::epoch::StoredEpoch;
use pgrx::pg_sys::{self, Oid};

use super::own_place;
use super::question::{Parameter, Values};
use crate::kernel::error::ClaimsError;

/// The epoch that a call presents, as this database had committed it. `None`: this database has none yet.
pub type Presented = Option<StoredEpoch>;

/// The arguments of `claims.acting_cell()` after the cell: the epoch, its predecessor, and the place of this database.
impl Parameter for Presented {
    const TYPES: &'static [Oid] = &[pg_sys::INT8OID; 3];

    fn add_to(&self, values: &mut Values) {
        self.map(|stored| stored.epoch).add_to(values);
        self.and_then(|stored| stored.predecessor).add_to(values);
        own_place::id().add_to(values);
    }
}

/// Returns whether an error can be that of `claims.acting_cell()`.
pub fn may_be_outdated(error: &ClaimsError) -> bool {
    let is_its_message = |message: &str| message.starts_with("another database acts as cell");
    error.refusal().is_some_and(|error| error.is_wrong_state() && is_its_message(&error.message))
}
