//! `purge_admin_log`, `purge_audit` and `purge_transfer_subjects`: delete what the background worker deletes by settings, for schedulers.

use claims_model::mode::Need;

use super::admission;
use super::audit::audit_log;
use super::transfer::transfers;
use crate::kernel::arguments::{self, required};
use crate::kernel::call::Call;
use crate::kernel::error::ClaimsError;
use crate::kernel::{access, admin_log};
use pg::clock::Moment;
use pg::prelude::*;
use pg::spi::Connection;

/// The number of rows that one statement deletes.
const PURGE_BATCH: i64 = 10_000;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn purge_admin_log(older_than: Option<Interval>) -> Result<i64, ErrorReport> {
    Ok(purge(older_than, admin_log::purge)?)
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn purge_audit(older_than: Option<Interval>) -> Result<i64, ErrorReport> {
    Ok(purge(older_than, audit_log::purge)?)
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn purge_transfer_subjects(older_than: Option<Interval>) -> Result<i64, ErrorReport> {
    Ok(purge(older_than, transfers::purge_subjects)?)
}

fn purge(
    older_than: Option<Interval>,
    batch: fn(&Connection, before: Moment, limit: i64) -> usize,
) -> Result<i64, ClaimsError> {
    let older_than = required(older_than, "older_than")?;
    Call::run(|call| {
        access::administer()?;
        let before = arguments::before(older_than, "older_than", Moment::now())?;
        admission::admit_everybody(&call.current_catalog(), Need::Settle)?;
        let mut total = 0;
        loop {
            let dropped = batch(call.connection, before, PURGE_BATCH) as i64;
            total += dropped;
            if dropped < PURGE_BATCH {
                return Ok(total);
            }
            check_for_interrupts!();
        }
    })
}
