//! `hold_verification_slot`: limits how many cells' workers verify at the same time.
//!
//! A slot is held for a time, which the worker extends while it verifies. So the slot of a cell that dies becomes free by itself.

use claims_model::mode::Need;
use claims_model::{BadInput, Problem};

use crate::arguments;
use crate::kernel::call::CellCall;
use crate::kernel::settings;
use crate::service::admission;
use pg::prelude::*;

/// Maximum time for which a slot is held, in seconds.
const MAX_SECONDS: i32 = 3600;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn hold_verification_slot(cell_id: Option<i64>, seconds: Option<i32>) -> Result<bool, ErrorReport> {
    arguments::require!(cell_id, seconds);
    let hold = |call: &CellCall| {
        if !(0..=MAX_SECONDS).contains(&seconds) {
            return Err(BadInput::new("seconds", Problem::OutOfRange { allowed: "0 to 3600" }).into());
        }
        admission::admit(call, Need::Settle)?;
        Ok(call.tables.hold_verification_slot(call.connection, cell_id, seconds, settings::verification_slots()))
    };
    Ok(CellCall::run(Some(cell_id), hold)?)
}
