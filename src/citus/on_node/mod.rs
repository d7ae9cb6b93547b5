//! Functions that Citus runs on other nodes, for statements of this extension.

mod feed;
mod in_flight;
pub mod membership;
mod write;

use pgrx::PgTrigger;

use pg::lock;

/// Handles the statement trigger on claims.bucket_types, before a profile changes; sql/install/service/hold_naming.sql declares
/// it. If the tables are distributed it fires on each node, and locks out transactions that write names there.
pub fn hold_naming(_trigger: &PgTrigger) {
    lock::exclusively(c"bucket_types");
}
