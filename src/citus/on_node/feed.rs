//! Functions that Citus runs on the node of the change feed, for other nodes, in the caller's connection and transaction there.

use claims_model::{BadInput, Problem, rate};

use crate::citus::{catalog, feed as store};
use crate::kernel::arguments::required;
use crate::kernel::error::ClaimsError;
use crate::kernel::pace;
use crate::service::verify::slots;
use pg::prelude::*;
use pg::{compatibility, spi, xact};

/// Maximum number of rows of the feed that are numbered at once.
const MAX_ROWS: i32 = 1_000_000;

/// Returns this node's transaction id, and a number for each row that the caller is about to write.
#[pg_extern(schema = "claims")]
#[search_path(pg_catalog, pg_temp)]
fn take_change_places(row_count: Option<i32>) -> Result<Vec<i64>, ErrorReport> {
    let row_count = required(row_count, "row_count")?;
    if !(1..=MAX_ROWS).contains(&row_count) {
        let problem = Problem::OutOfRange { allowed: "1 to 1000000" };
        return Err(ClaimsError::from(BadInput::new("row_count", problem)).into());
    }
    // A permanent transaction id fits into 63 bits.
    let xid = xact::own_xid().0.cast_signed();
    let numbers = spi::connect(|connection| store::draw(connection, row_count));
    Ok([xid].into_iter().chain(numbers).collect())
}

/// Returns the group of this node in the cluster.
#[pg_extern(schema = "claims", stable)]
#[search_path(pg_catalog, pg_temp)]
fn change_node() -> i32 {
    compatibility::require();
    catalog::own_group().unwrap_or(-1)
}

/// Admits one more begin of a cell. Returns 0, or the time from which on one is admitted, in microseconds, or NULL if nothing is
/// counted on this node. Without a rate it admits nothing, and only returns whether begins are counted.
#[pg_extern(schema = "claims")]
#[search_path(pg_catalog, pg_temp)]
fn keep_pace(cell_id: Option<i64>, per_second: Option<i32>) -> Result<Option<i64>, ErrorReport> {
    compatibility::require();
    let cell_id = required(cell_id, "cell_id")?;
    let again = per_second
        .map_or(0, |per_second| pace::pass(cell_id, per_second, rate::RECORDS).map_or_else(|again| again.0, |()| 0));
    Ok(pace::is_counted().then_some(again))
}

/// Holds one of this node's slots for verification for a cell, as `hold_verification_slot` does for all nodes.
#[pg_extern(schema = "claims")]
#[search_path(pg_catalog, pg_temp)]
fn hold_slot_on_node(cell_id: Option<i64>, seconds: Option<i32>, slots: Option<i64>) -> Result<bool, ErrorReport> {
    compatibility::require();
    let (cell_id, seconds) = (required(cell_id, "cell_id")?, required(seconds, "seconds")?);
    let slots = required(slots, "slots")?;
    Ok(spi::connect(|connection| slots::hold(connection, cell_id, seconds, slots)))
}
