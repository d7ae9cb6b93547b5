//! `skip_capture`: rows change, and the claims on their names do not.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use super::log;
use crate::acts::Act;
use crate::pg::xact;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn skip_capture(reason: Option<String>) -> Result<(), ErrorReport> {
    xact::must_be_writable(c"claims.skip_capture()");
    Act::begin("skip_capture", reason)?.perform(|_| Ok(()))?;
    log::skip();
    Ok(())
}
