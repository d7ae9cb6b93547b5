//! The extension in the shared database: leases, reading, administration, and the service's half of verification.

pub mod admin;
pub mod admission;
pub mod audit;
pub mod claims;
pub mod counters;
pub mod durability;
pub mod epoch;
pub mod erasure;
pub mod errors;
pub mod feed;
pub mod ids;
pub mod lease;
pub mod low_water;
pub mod metrics;
pub mod names;
pub mod naming;
pub mod quarantine;
pub mod read;
mod retention;
mod subject_history;
pub mod transfer;
pub mod verify;
pub mod waiters;

use std::time::Duration;

use crate::kernel::{pace, refusals};
use pg::shared::Area;

::pgrx::extension_sql_file!("../../sql/install/service/tables.sql", name = "tables", requires = ["schema"]);
::pgrx::extension_sql_file!(
    "../../sql/install/service/check_distributed.sql",
    name = "check_distributed",
    requires = ["tables", "names", "transfers", kernel::access::require_tables_here]
);
::pgrx::extension_sql_file!(
    "../../sql/install/check_database.sql",
    name = "check_database",
    requires =
        ["declarations", "unique", "requests", "cell_ids", "changes", "feed_holder", service::admin::version::version]
);
::pgrx::extension_sql_file!(
    "../../sql/install/service/check.sql",
    name = "check",
    requires = [
        "tables",
        "transfers",
        "changes",
        "service_ids",
        "cell_ids",
        "check_distributed",
        "check_database",
        kernel::direct::find_altered_tables
    ]
);

/// The service's areas of shared memory.
pub static AREAS: [&dyn Area; 10] = [
    &pace::PACES,
    &pace::REFUSAL_PACES,
    &counters::CELLS,
    &counters::CHECKS,
    &low_water::MARKS,
    &low_water::PHASES,
    &waiters::QUEUE,
    &waiters::GATE,
    &refusals::RINGS,
    &refusals::READERS,
];

/// Runs in a background process of a caller that waits for it. Returns false if the message is for another part of the extension.
pub fn run_errand(message: &str) -> bool {
    message.strip_prefix(ids::draw::MESSAGE).map(ids::draw::run).is_some()
}

/// Number of attempts that a call makes, each after a probe, before it reports a conflict that it cannot see.
const ATTEMPTS: u32 = 4;

/// Returns the lock timeout of an attempt that follows a probe without conflicts: 1, 8, 64 and 512 ms. Such an attempt waits for
/// relation extension, which takes longer under load, or for a transaction that came after the probe. The next probe sees that
/// transaction.
fn lock_timeout(attempt: u32) -> Duration {
    Duration::from_millis(1 << (3 * attempt))
}
