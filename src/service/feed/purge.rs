//! `purge_changes`: deletes old changes.

use std::convert::Infallible;

use claims_model::mode::Need;

use crate::kernel::call::Call;
use crate::kernel::error::ClaimsError;
use crate::kernel::pass_log::Pass;
use crate::kernel::{access, arguments};
use crate::service::admission;
use crate::service::feed::tables::FEED_TABLES;
use pg::clock::Moment;
use pg::prelude::*;
use pg::settings::LockWaits;

/// Number of rows that one statement deletes.
const PURGE_BATCH: i64 = 1000;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn purge_changes(older_than: Option<Interval>) -> Result<i64, ErrorReport> {
    Ok(Call::run(|call| {
        let older_than = arguments::required(older_than, "older_than")?;
        access::administer()?;
        admission::admit_everybody(&call.current_catalog(), Need::Settle)?;
        let before = arguments::before(older_than, "older_than", Moment::now())?;
        let pass = Pass::begin("purge", None, None, None);
        let mut total = 0;
        loop {
            let (rows, changes) = drop_portion(call, before, PURGE_BATCH);
            total += changes;
            if rows < PURGE_BATCH {
                break;
            }
            check_for_interrupts!();
        }
        pass.succeeded(call.connection, &[("changes", total)]);
        Ok::<_, ClaimsError>(total)
    })?)
}

/// Deletes up to `limit` rows older than `retention` seconds. Returns the number of changes. A row has at least one change, so a
/// result below `limit` means that no old row is left.
pub fn drop_old(call: &Call, retention: i64, limit: i64) -> usize {
    let before = Moment(Moment::now().0.saturating_sub(retention.saturating_mul(1_000_000)));
    usize::try_from(drop_portion(call, before, limit).1).unwrap_or(0)
}

/// Limit for waiting for a lock on the node of the feed. A horizon that another session has locked is skipped.
const LOCK_TIMEOUT_MS: i64 = 1000;

/// Deletes a portion of the changes before a time. Returns the number of rows, and of changes.
fn drop_portion(call: &Call, before: Moment, limit: i64) -> (i64, i64) {
    let _waits = call.tables.needs_subtransactions().then(|| LockWaits::limit(LOCK_TIMEOUT_MS));
    let purge = || Ok::<_, Infallible>(FEED_TABLES.of(call).purge_changes(call.connection, before, limit));
    let Ok(dropped) = call.bounded(purge);
    dropped
}
