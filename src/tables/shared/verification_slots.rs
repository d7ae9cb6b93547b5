//! Statements on the slots for verification.

use std::ffi::CStr;

use crate::pg::spi::{Connection, View};
use crate::pg::statement::statement;

pub const TABLE: &CStr = c"verification_slots";

statement! {
    /// Holds a slot for cell $1 for $2 seconds, unless $3 others are held. 0 for $3 means no limit.
    HOLD(INT8OID, INT4OID, INT8OID) =
        "INSERT INTO claims.verification_slots AS s (cell_id, held_until)
         SELECT $1, clock_timestamp() + make_interval(secs => $2)
          WHERE $3 = 0 OR (SELECT count(*) FROM claims.verification_slots o
                            WHERE o.cell_id <> $1 AND o.held_until > clock_timestamp()) < $3
         ON CONFLICT (cell_id) DO UPDATE SET held_until = excluded.held_until";
    GIVE_BACK(INT8OID) =
        "DELETE FROM claims.verification_slots s WHERE s.cell_id = $1 OR s.held_until < clock_timestamp() - interval '1 day'";
}

/// Holds a slot, or holds it for longer. Returns `false` if `limit` other cells hold one. Call it with the table locked.
pub fn hold(connection: &Connection, cell_id: i64, seconds: i32, limit: i64) -> bool {
    connection.run(&HOLD, View::LatestToWrite, [cell_id.into(), seconds.into(), limit.into()]).count() == 1
}

/// Gives a slot back, and removes those of cells that are gone.
pub fn give_back(connection: &Connection, cell_id: i64) {
    connection.run(&GIVE_BACK, View::LatestToWrite, [cell_id.into()]);
}
