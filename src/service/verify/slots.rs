//! `hold_verification_slot`: limits how many cells' workers verify at the same time.
//!
//! A slot is held for a time, which the worker extends while it verifies. So the slot of a cell that dies becomes free by itself.

use claims_model::mode::Need;
use claims_model::{BadInput, Problem};

use crate::arguments::required;
use crate::error::ClaimsError;
use crate::pg::prelude::*;
use crate::pg::settings::LockWaits;
use crate::pg::spi::Connection;
use crate::pg::subtransaction::subtransaction;
use crate::service::admission;
use crate::store::catalog;
use crate::tables::shared::verification_slots;
use crate::{access, settings, tables};

/// Maximum time for which a slot is held, in seconds.
const MAX_SECONDS: i32 = 3600;
/// Limit for waiting for another call of the same cell.
const LOCK_TIMEOUT_MS: i64 = 5000;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn hold_verification_slot(cell_id: Option<i64>, seconds: Option<i32>) -> Result<bool, ErrorReport> {
    Ok(hold(required(cell_id, "cell_id")?, required(seconds, "seconds")?)?)
}

fn hold(cell_id: i64, seconds: i32) -> Result<bool, ClaimsError> {
    tables::connect(|tables, connection| {
        let catalog = catalog::current(connection);
        access::act_for(&catalog, cell_id)?;
        if !(0..=MAX_SECONDS).contains(&seconds) {
            return Err(BadInput::new("seconds", Problem::OutOfRange { allowed: "0 to 3600" }).into());
        }
        admission::admit(tables, &catalog, cell_id, Need::Settle)?;
        let _waits = LockWaits::limit(LOCK_TIMEOUT_MS);
        if seconds == 0 {
            verification_slots::give_back(connection, cell_id);
            return Ok(true);
        }
        Ok(take(connection, cell_id, seconds))
    })
}

/// Takes a slot, or holds the cell's own one for longer. Returns `false` if the other cells have all of them. No call waits for those of other
/// cells: it takes the slot first, then counts the others, also those that open transactions have taken, and gives its own one back if there
/// are too many. If two calls meet, both may get none, and try again later.
fn take(connection: &Connection, cell_id: i64, seconds: i32) -> bool {
    let limit = settings::verification_slots();
    let taken = subtransaction(&[], || {
        verification_slots::hold(connection, cell_id, seconds);
        let is_one_too_many = limit != 0 && verification_slots::held_by_others(cell_id) >= limit;
        if is_one_too_many { Err(()) } else { Ok(()) }
    });
    taken.is_ok()
}
