//! `skip_capture`: stops capturing changes in the current transaction, so that rows change and their claims do not.

use super::log;
use crate::kernel::admin_action::AdminAction;
use pg::prelude::*;
use pg::xact;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn skip_capture(reason: Option<String>) -> Result<(), ErrorReport> {
    xact::must_be_writable(c"claims.skip_capture()");
    AdminAction::begin("skip_capture", reason)?.perform(|_| Ok(()))?;
    log::skip();
    Ok(())
}
