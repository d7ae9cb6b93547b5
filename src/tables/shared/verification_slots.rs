//! Statements on the slots for verification.

use std::collections::HashSet;
use std::ffi::CStr;

use crate::pg::clock::Moment;
use crate::pg::in_flight;
use crate::pg::spi::{Connection, View};
use crate::pg::statement::statement;
use crate::tables::rows::known_or_raised;

const TABLE: &CStr = c"verification_slots";

statement! {
    /// Holds a slot for cell $1 for $2 seconds.
    HOLD(INT8OID, INT4OID) =
        "INSERT INTO claims.verification_slots (cell_id, held_until)
         VALUES ($1, clock_timestamp() + make_interval(secs => $2))
         ON CONFLICT (cell_id) DO UPDATE SET held_until = excluded.held_until";
    /// Deletes the slot of cell $1, and those of cells that are gone, unless an open transaction has them.
    GIVE_BACK(INT8OID) =
        "WITH gone AS MATERIALIZED (
             SELECT s.cell_id FROM claims.verification_slots s
              WHERE s.held_until < clock_timestamp() - interval '1 day' AND s.cell_id <> $1 FOR UPDATE SKIP LOCKED)
         DELETE FROM claims.verification_slots s WHERE s.cell_id = $1 OR s.cell_id IN (SELECT g.cell_id FROM gone g)";
}

/// Holds a slot, or holds it for longer.
pub fn hold(connection: &Connection, cell_id: i64, seconds: i32) {
    connection.run(&HOLD, View::LatestToWrite, [cell_id.into(), seconds.into()]);
}

/// Returns how many other cells hold a slot, also in transactions that are open.
pub fn held_by_others(cell_id: i64) -> i64 {
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

/// Gives a slot back, and removes those of cells that are gone.
pub fn give_back(connection: &Connection, cell_id: i64) {
    connection.run(&GIVE_BACK, View::LatestToWrite, [cell_id.into()]);
}
