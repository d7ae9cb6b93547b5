//! The grants of roles after an upgrade.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::acts::Act;
use crate::pg::extension::outside_of_scripts;
use crate::store::service::grants;

/// Grants every registered role what its kind has in this version. An upgrade calls it at its end, since the extension's
/// script does not know the roles.
#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn refresh_grants() -> Result<(), ErrorReport> {
    let act = Act::without_reason("refresh_grants")?;
    Ok(act.perform(|connection| {
        outside_of_scripts(|| grants::refresh(connection));
        Ok(())
    })?)
}
