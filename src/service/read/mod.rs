//! Reading: claims for routers, and leases and claims in pages for cells. No function here locks, writes, or takes a transaction
//! id. All of them work on a hot standby.

mod errors;
mod lease_details;
mod list_leases;
mod list_records;
mod local;
pub mod outstanding_lease;
mod read_after;
mod record;
pub mod statements;
mod tables;

pub use self::tables::*;

pub use record::status_name;

use claims_model::{BadInput, Problem};

use crate::kernel::error::ClaimsError;

::pgrx::extension_sql_file!("../../../sql/install/service/records.sql", name = "records", requires = ["transfers"]);

/// Maximum number of rows that one call may ask for.
const MAX_RESULTS: i32 = 100_000;

pub fn page_size(max_results: i32) -> Result<i64, ClaimsError> {
    if (1..=MAX_RESULTS).contains(&max_results) {
        return Ok(max_results.into());
    }
    Err(BadInput::new("max_results", Problem::OutOfRange { allowed: "1 to 100000" }).into())
}
