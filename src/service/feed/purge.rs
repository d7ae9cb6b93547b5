//! `purge_changes`: how far back the feed reaches.

use std::convert::Infallible;

use claims_model::mode::Need;
use pgrx::datum::Interval;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::access;
use crate::arguments;
use crate::distribution;
use crate::error::ClaimsError;
use crate::passes::Pass;
use crate::pg::clock::Moment;
use crate::pg::settings::LockWaits;
use crate::pg::spi::{self, Connection};
use crate::service::admission;
use crate::service::engine;
use crate::store::catalog;
use crate::store::service::changes;
use crate::store::service::distributed::changes as distributed_changes;

/// Rows that one statement drops.
const PURGE_BATCH: i64 = 1000;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn purge_changes(older_than: Option<Interval>) -> Result<i64, ErrorReport> {
    Ok(spi::connect(|connection| {
        let older_than = access::given(older_than, "older_than")?;
        access::administer()?;
        admission::admit_everybody(&catalog::current(connection), Need::Settle)?;
        let before = arguments::before(older_than, "older_than", Moment::now())?;
        let pass = Pass::begin("purge", None, None);
        let mut total = 0;
        loop {
            let (rows, changes) = drop_portion(connection, before, PURGE_BATCH);
            total += changes;
            if rows < PURGE_BATCH {
                break;
            }
            check_for_interrupts!();
        }
        pass.succeeded(connection, &[("changes", total)]);
        Ok::<_, ClaimsError>(total)
    })?)
}

/// A portion of what is older than so many seconds; returns how many changes. A row has at least one: fewer than `limit` are the last
/// ones.
pub fn drop_old(connection: &Connection, retention: i64, limit: i64) -> usize {
    let before = Moment(Moment::now().0.saturating_sub(retention.saturating_mul(1_000_000)));
    usize::try_from(drop_portion(connection, before, limit).1).unwrap_or(0)
}

/// Milliseconds to wait for a lock on the node of the feed: whoever is at its horizon is passed over.
const PATIENCE: i64 = 1000;

/// How many rows, and how many changes.
fn drop_portion(connection: &Connection, before: Moment, limit: i64) -> (i64, i64) {
    if !distribution::is_spread() {
        return changes::purge(connection, before, limit);
    }
    let _waits = LockWaits::limit(PATIENCE);
    let purge = || Ok::<_, Infallible>(distributed_changes::purge(connection, before, limit));
    let Ok(dropped) = engine::bounded(connection, purge);
    dropped
}
