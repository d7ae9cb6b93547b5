//! `set_enforcement`: chooses how declarations are enforced.

use claims_model::enforcement::EnforcementMode;
use claims_model::limits::REASON_CHARS;
use claims_model::{BadInput, Problem};
use pgrx::AnyNumeric;

use super::errors::{CaptureError, notice_of_enforcing};
use crate::cell::claimed::declared;
use crate::kernel::admin_action::AdminAction;
use crate::kernel::error::ClaimsError;
use crate::kernel::{access, arguments};
use pg::name::{Name, Relation};
use pg::prelude::*;
use pg::spi;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn set_enforcement(
    table_name: Option<Relation>,
    attribute: Option<Name>,
    mode: Option<String>,
    reason: Option<String>,
    share: default!(Option<AnyNumeric>, "100"),
    declaration: default!(Option<Name>, "NULL"),
) -> Result<(), ErrorReport> {
    access::refuse_restricted()?;
    let reason = arguments::text(reason, "reason", REASON_CHARS)?;
    if reason.trim().is_empty() {
        return Err(ClaimsError::from(BadInput::new("reason", Problem::Empty)).into());
    }
    let Relation(table) = arguments::required(table_name, "table_name")?;
    let Name(attribute) = arguments::required(attribute, "attribute")?;
    let mode = arguments::required(mode, "mode")?;
    if EnforcementMode::named(&mode).is_none() {
        let problem = Problem::OutOfRange { allowed: "off, observe and enforce" };
        return Err(ClaimsError::from(BadInput::new("mode", problem)).into());
    }
    let share = share_of(arguments::required(share, "share")?)?;
    let declaration = declaration.map(|Name(name)| name);
    let found = spi::connect(|connection| declared::table(connection, table));
    let found = found.ok_or_else(|| ClaimsError::from(CaptureError::NoTable { table }))?;
    access::own_or_administer(found.owner)?;
    let action = AdminAction::of_cell("set_enforcement", reason)
        .with("table_name", found.name.as_str())
        .with("attribute", attribute.as_str())
        .with("mode", mode.as_str())
        .with("share", share.as_str())
        .with("declaration", declaration.as_deref());
    let not_enforced = action.perform(|call| {
        let not_enforced = declared::not_enforced(call.connection, table, &attribute, declaration.as_deref());
        if declared::set_enforcement(call.connection, table, &attribute, declaration.as_deref(), &mode, &share) {
            return Ok(not_enforced);
        }
        let table = found.name.clone();
        Err(match declaration {
            None => CaptureError::NotClaimed { table, attribute }.into(),
            Some(declaration) => CaptureError::NoDeclaration { table, attribute, declaration }.into(),
        })
    })?;
    if EnforcementMode::named(&mode) == Some(EnforcementMode::Enforce) && share == "100" {
        not_enforced.iter().for_each(|source_type| notice_of_enforcing(source_type));
    }
    Ok(())
}

/// Returns a percentage as text.
fn share_of(share: AnyNumeric) -> Result<String, ClaimsError> {
    let is_percentage = !share.is_nan() && share >= AnyNumeric::from(0) && share <= AnyNumeric::from(100);
    if is_percentage {
        return Ok(share.normalize().to_owned());
    }
    Err(BadInput::new("share", Problem::OutOfRange { allowed: "0 to 100" }).into())
}
