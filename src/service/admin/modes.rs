//! `set_mode`: restricts what the service does for cells.

use claims_model::mode::Mode;
use claims_model::{BadInput, Problem};

use crate::kernel::admin_action::AdminAction;
use crate::kernel::arguments::required;
use crate::kernel::call::answer;
use crate::kernel::error::AccessError;
use crate::kernel::modes;
use pg::prelude::*;
use pg::roles;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn set_mode(
    mode: Option<String>,
    reason: Option<String>,
    cell_id: default!(Option<i64>, "NULL"),
) -> Result<(), ErrorReport> {
    answer(|| {
        let action = AdminAction::begin("set_mode", reason)?;
        let unknown = || BadInput::new("mode", Problem::OutOfRange { allowed: "open, settle_only or read_only" });
        let mode = Mode::named(&required(mode, "mode")?).ok_or_else(unknown)?;
        let reason = action.reason().to_owned();
        action.with("mode", mode.name()).with("cell_id", cell_id).perform(|call| match cell_id {
            Some(cell_id) if !call.current_catalog().cells.contains_key(&cell_id) => {
                Err(AccessError::UnknownCell { cell_id }.into())
            }
            _ => {
                modes::set(call.connection, cell_id, mode, &reason, &roles::name(roles::caller()));
                Ok(())
            }
        })
    })
}
