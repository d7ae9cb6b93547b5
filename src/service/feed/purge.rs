//! `purge_changes`: how far back the feed reaches.

use claims_model::mode::Need;
use pgrx::datum::Interval;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::access;
use crate::arguments;
use crate::error::ClaimsError;
use crate::passes::Pass;
use crate::pg::clock::Moment;
use crate::pg::spi::{self, Connection};
use crate::service::admission;
use crate::store::catalog;
use crate::store::service::changes;

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
            let (rows, changes) = changes::purge(connection, before, PURGE_BATCH);
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
    usize::try_from(changes::purge(connection, before, limit).1).unwrap_or(0)
}
