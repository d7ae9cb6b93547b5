//! The epoch that each save presents, with which the service makes sure that only one database acts as a cell.

use claims_model::epoch::StoredEpoch;
use pgrx::pg_sys::{self, Oid};

use super::own_place;
use super::question::{Parameter, Values};
use crate::cell::own_epochs;
use crate::error::ClaimsError;

/// The epoch that a call presents, as this database had committed it. `None`: this database has none yet.
pub type Presented = Option<StoredEpoch>;

/// Largest number of attempts: a pass of this database may replace the epoch during each of them.
const ATTEMPTS: usize = 5;

/// The arguments of `claims.acting_cell()` after the cell: the epoch, its predecessor, and the place of this database.
impl Parameter for Presented {
    const TYPES: &'static [Oid] = &[pg_sys::INT8OID; 3];

    fn add_to(&self, values: &mut Values) {
        self.map(|stored| stored.epoch).add_to(values);
        self.and_then(|stored| stored.predecessor).add_to(values);
        own_place::id().add_to(values);
    }
}

/// Returns the epoch that the next call to a service presents.
pub fn first(cell_id: i64, service: &str) -> Presented {
    own_epochs::committed(cell_id, service).candidates()[0]
}

/// Makes a call with the epoch that this database has committed for a service, in the current transaction. If the service refuses it, and
/// this database has another epoch, the call is repeated with that one: a pass has presented it meanwhile, or it is that of another foreign
/// server, which leads to the same service. If it has none, it presents its place by `show`, and repeats the call if the service follows it
/// there: a standby that was promoted. Returns the last epoch, too.
pub(super) fn presenting<T>(
    cell_id: i64,
    service: &str,
    show: impl Fn(StoredEpoch) -> bool,
    call: impl Fn(Presented) -> Result<T, ClaimsError>,
) -> Result<(Presented, T), ClaimsError> {
    let mut presented = first(cell_id, service);
    let mut refused = Vec::new();
    let mut has_shown = false;
    loop {
        let result = call(presented);
        if refused.len() + 1 >= ATTEMPTS || !result.as_ref().is_err_and(may_be_outdated) {
            return result.map(|value| (presented, value));
        }
        refused.push(presented);
        let candidates = own_epochs::committed(cell_id, service).candidates();
        if let Some(other) = candidates.iter().find(|candidate| !refused.contains(candidate)) {
            presented = *other;
            continue;
        }
        match candidates.into_iter().flatten().find(|candidate| !has_shown && show(*candidate)) {
            None => return result.map(|value| (presented, value)),
            Some(followed) => (presented, has_shown) = (Some(followed), true),
        }
    }
}

/// Returns whether an error can be that of `claims.acting_cell()`.
pub fn may_be_outdated(error: &ClaimsError) -> bool {
    let is_its_message = |message: &str| message.starts_with("another database acts as cell");
    error.refusal().is_some_and(|error| error.is_wrong_state() && is_its_message(&error.message))
}
