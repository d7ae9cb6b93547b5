//! What the node that keeps the change feed tells other nodes, where the tables are spread: Citus has these functions executed there, in
//! the connection and the transaction that the caller has there.

use claims_model::{BadInput, Problem};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::access::given;
use crate::error::ClaimsError;
use crate::pg::{citus, gate, spi, xact};
use crate::store::service::distributed::changes as store;

/// The most rows of the feed that are numbered at once.
const MAX_ROWS: i32 = 1_000_000;

/// The place of rows that the caller is about to write: this node's transaction, and a number for each row.
#[pg_extern(schema = "claims")]
#[search_path(pg_catalog, pg_temp)]
fn take_change_places(row_count: Option<i32>) -> Result<Vec<i64>, ErrorReport> {
    let row_count = given(row_count, "row_count")?;
    if !(1..=MAX_ROWS).contains(&row_count) {
        let problem = Problem::OutOfRange { allowed: "1 to 1000000" };
        return Err(ClaimsError::from(BadInput::new("row_count", problem)).into());
    }
    // A permanent transaction id fits into 63 bits.
    let xid = xact::own_xid().0.cast_signed();
    let numbers = spi::connect(|connection| store::draw(connection, row_count));
    Ok([xid].into_iter().chain(numbers).collect())
}

/// Which node of the cluster this is.
#[pg_extern(schema = "claims", stable)]
#[search_path(pg_catalog, pg_temp)]
fn change_node() -> i32 {
    gate::pass();
    citus::own_group().unwrap_or(-1)
}
