//! Reading: claims for routers, leases and claims in pages for cells. Nothing here locks, writes, or takes a
//! transaction id; all of it works on a hot standby.

mod list_leases;
mod list_records;
mod record;

use claims_model::{BadInput, Problem};

use crate::access;
use crate::error::ClaimsError;

/// Rows that one call may ask for.
const MAX_RESULTS: i32 = 100_000;

/// The size of a page.
fn page_size(max_results: Option<i32>) -> Result<i64, ClaimsError> {
    let size = access::given(max_results, "max_results")?;
    if (1..=MAX_RESULTS).contains(&size) {
        return Ok(size.into());
    }
    Err(BadInput::new("max_results", Problem::OutOfRange { allowed: "1 to 100000" }).into())
}
