//! `lease_outcome` and `purge_outcomes`: how a lease ended, and for how long that is known.

use claims_model::mode::Need;
use pgrx::Uuid as PgUuid;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::access;
use crate::error::ClaimsError;
use crate::pg::spi::{self, View};
use crate::pg::uuid::from_pg_uuid;
use crate::pg::xact;
use crate::service::admission;
use crate::settings;
use crate::store::catalog;
use crate::store::service::leases;

/// Outcomes that one statement drops.
const PURGE_BATCH: i64 = 10_000;

#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn lease_outcome(cell_id: Option<i64>, lease_uuid: Option<PgUuid>) -> Result<Option<String>, ErrorReport> {
    let outcome = spi::connect(|connection| {
        let cell_id = access::given(cell_id, "cell_id")?;
        let lease = from_pg_uuid(access::given(lease_uuid, "lease_uuid")?);
        access::act_for(&catalog::current(connection), cell_id)?;
        let known = leases::known(connection, &[lease], View::Caller).pop().filter(|known| known.cell_id == cell_id);
        // Whoever is told may forget the lease: a crash must not undo it then.
        if known.as_ref().is_some_and(|known| known.outcome.is_some()) {
            xact::flush_commits();
        }
        Ok::<_, ClaimsError>(known)
    })?;
    Ok(outcome.map(|known| known.outcome_name().to_owned()))
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn purge_outcomes() -> Result<i64, ErrorReport> {
    spi::connect(|connection| {
        access::administer()?;
        admission::admit_everybody(&catalog::current(connection), Need::Settle)?;
        let mut total = 0;
        loop {
            let dropped = leases::purge_outcomes(connection, settings::outcome_retention(), PURGE_BATCH) as i64;
            total += dropped;
            if dropped < PURGE_BATCH {
                return Ok::<_, ClaimsError>(total);
            }
        }
    })
    .map_err(ErrorReport::from)
}
