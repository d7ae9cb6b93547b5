//! `hold_verification_slot`: limits how many cells' workers verify at the same time.
//!
//! A slot is held for a time, which the worker extends while it verifies. So the slot of a cell that dies becomes free by itself.

use std::collections::HashSet;
use std::ffi::CStr;

use claims_model::mode::Need;
use claims_model::{BadInput, Problem};

use crate::kernel::call::CellCall;
use crate::kernel::error::known_or_raised;
use crate::kernel::{arguments, settings};
use crate::service::admission;
use crate::service::verify::tables::VERIFICATION_TABLES;
use pg::clock::Moment;
use pg::in_flight;
use pg::prelude::*;
use pg::query::query;
use pg::settings::LockWaits;
use pg::spi::Connection;
use pg::subtransaction::subtransaction;

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
        Ok(VERIFICATION_TABLES.of(call).hold_slot(call.connection, cell_id, seconds, settings::verification_slots()))
    };
    Ok(CellCall::run(Some(cell_id), hold)?)
}

const TABLE: &CStr = c"verification_slots";
/// Limit for waiting for another call of the same cell.
const LOCK_TIMEOUT_MS: i64 = 5000;

// Also where the claims are distributed the slots are a table of one node.
query! {
    /// Holds a slot for a cell.
    fn hold_slot(cell_id: i64, seconds: i32) = [LatestToWrite Anywhere]
        "INSERT INTO claims.verification_slots (cell_id, held_until)
         VALUES (:cell_id, clock_timestamp() + make_interval(secs => :seconds))
         ON CONFLICT (cell_id) DO UPDATE SET held_until = excluded.held_until";
    /// Deletes the slot of a cell, and those of cells that are gone, unless an open transaction has them.
    fn give_back(cell_id: i64) = [LatestToWrite Anywhere]
        "WITH gone AS MATERIALIZED (
             SELECT s.cell_id FROM claims.verification_slots s
              WHERE s.held_until < clock_timestamp() - interval '1 day' AND s.cell_id <> :cell_id FOR UPDATE SKIP LOCKED)
         DELETE FROM claims.verification_slots s WHERE s.cell_id = :cell_id OR s.cell_id IN (SELECT g.cell_id FROM gone g)";
}

/// Holds a slot of this node for a cell, or holds it for longer. Returns `false` if the other cells have all of them; a limit of 0
/// means that there is none. For 0 seconds it gives the slot back, and removes those of cells that are gone.
pub fn hold(connection: &Connection, cell_id: i64, seconds: i32, limit: i64) -> bool {
    let _waits = LockWaits::limit(LOCK_TIMEOUT_MS);
    if seconds == 0 {
        give_back(connection, cell_id);
        return true;
    }
    take(connection, cell_id, seconds, limit)
}

/// Takes a slot, or holds the cell's own one for longer. Returns `false` if the other cells have all of them. No call waits for those of other
/// cells: it takes the slot first, then counts the others, also those that open transactions have taken, and gives its own one back if there
/// are too many. If two calls meet, both may get none, and try again later.
fn take(connection: &Connection, cell_id: i64, seconds: i32, limit: i64) -> bool {
    let taken = subtransaction(&[], || {
        hold_slot(connection, cell_id, seconds);
        let is_one_too_many = limit != 0 && held_by_others(cell_id) >= limit;
        if is_one_too_many { Err(()) } else { Ok(()) }
    });
    taken.is_ok()
}

/// Returns how many other cells hold a slot, also in transactions that are open.
fn held_by_others(cell_id: i64) -> i64 {
    let now = Moment::now();
    // A row that an open transaction updates is found in two versions.
    let mut holders = HashSet::new();
    let read = in_flight::each_row(TABLE, |row, is_being_written| {
        let holder: i64 = row.must(c"cell_id");
        if holder != cell_id && (is_being_written || row.must::<Moment>(c"held_until") > now) {
            holders.insert(holder);
        }
    });
    known_or_raised(read, "claims.verification_slots (cell_id)");
    i64::try_from(holders.len()).unwrap_or(i64::MAX)
}
