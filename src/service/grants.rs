//! What roles may do after an upgrade.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::access;
use crate::pg::extension::outside_of_scripts;
use crate::pg::spi;
use crate::store::service::grants;

/// Gives every role that was registered what its kind has today. An upgrade calls it at its end: what a role is granted is
/// not part of the extension.
#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn refresh_grants() -> Result<(), ErrorReport> {
    access::administer()?;
    outside_of_scripts(|| spi::connect(grants::refresh));
    Ok(())
}
