//! `lease_outcome` and `purge_outcomes`: return and delete the outcomes of leases.

use claims_model::mode::Need;

use crate::kernel::call::{Call, CellCall};
use crate::kernel::error::ClaimsError;
use crate::kernel::{access, arguments, settings};
use crate::service::admission;
use crate::service::claims::{LEASE_TABLES, leases};
use pg::prelude::*;
use pg::spi::View;
use pg::uuid::from_pg_uuid;
use pg::xact;

/// Number of outcomes that one statement deletes.
const PURGE_BATCH: i64 = 10_000;

#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn lease_outcome(cell_id: Option<i64>, lease_uuid: Option<PgUuid>) -> Result<Option<String>, ErrorReport> {
    arguments::require!(cell_id, lease_uuid);
    let lease = from_pg_uuid(lease_uuid);
    let outcome = CellCall::run(Some(cell_id), |call| {
        let existing = leases::existing(call.connection, &[lease], View::Caller).pop();
        let existing = existing.filter(|existing| existing.cell_id == cell_id);
        // The caller may forget the lease after this answer, so a crash must not undo the commit.
        if existing.as_ref().is_some_and(|existing| existing.outcome.is_some()) {
            xact::flush_commits();
        }
        Ok(existing)
    })?;
    Ok(outcome.map(|existing| existing.outcome_name().to_owned()))
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn purge_outcomes() -> Result<i64, ErrorReport> {
    Call::run(|call| {
        access::administer()?;
        admission::admit_everybody(&call.current_catalog(), Need::Settle)?;
        let mut total = 0;
        loop {
            let dropped =
                LEASE_TABLES.of(call).purge_outcomes(call.connection, settings::outcome_retention(), PURGE_BATCH)
                    as i64;
            total += dropped;
            if dropped < PURGE_BATCH {
                return Ok::<_, ClaimsError>(total);
            }
        }
    })
    .map_err(ErrorReport::from)
}
