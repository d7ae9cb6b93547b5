//! Registers cells and their roles.

use claims_json::{Token, Tokens};
use claims_model::limits::{ATTRIBUTES_BYTES, ATTRIBUTES_DEPTH, CELL_TEXT_CHARS};
use claims_model::{BadInput, Problem};
use pgrx::pg_sys::Oid;

use super::errors::AdminError;
use super::grants::{self, Audience, role_called};
use super::statements;
use super::tables::{CellRegistration, ROLE_TABLES};
use crate::kernel::admin_action::AdminAction;
use crate::kernel::arguments;
use crate::kernel::call::Call;
use crate::kernel::error::ClaimsError;
use pg::jsonb::{Extent, Jsonb};
use pg::name::Name;
use pg::prelude::*;

/// Maximum size of a cell's attributes.
const LARGEST_ATTRIBUTES: Extent = Extent { bytes: ATTRIBUTES_BYTES, depth: ATTRIBUTES_DEPTH };

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn register_cell(
    cell_id: Option<i64>,
    role_name: Option<Name>,
    name: default!(Option<String>, "NULL"),
    address: default!(Option<String>, "NULL"),
    attributes: default!(Option<Jsonb>, "NULL"),
) -> Result<(), ErrorReport> {
    let action = AdminAction::without_reason("register_cell")?;
    let (Some(cell_id), Some(Name(role_name))) = (cell_id, role_name) else {
        return Err(ClaimsError::from(AdminError::CellIncomplete).into());
    };
    let text = |value: Option<String>, argument| {
        value.map(|value| arguments::at_most(value, argument, CELL_TEXT_CHARS)).transpose()
    };
    if cell_id < 0 {
        return Err(bad("cell_id", Problem::OutOfRange { allowed: "0 and more" }).into());
    }
    let (name, address) = (text(name, "name")?, text(address, "address")?);
    if let Some(attributes) = &attributes {
        check(attributes)?;
    }
    let action = action.with("cell_id", cell_id).with("role_name", role_name.as_str());
    let action = action.with("name", name.as_deref()).with("address", address.as_deref());
    Ok(action.perform(|call| {
        let role = role_called(call.connection, &role_name)?;
        register(call, &role_name, &CellRegistration { cell_id, role, name, address, attributes })
    })?)
}

/// Raises an error unless attributes are an object that is small enough to be returned with every list of cells.
fn check(attributes: &Jsonb) -> Result<(), ClaimsError> {
    if !matches!(attributes.tokens().next(), Token::BeginObject) {
        return Err(bad("attributes", Problem::OutOfRange { allowed: "a JSON object" }));
    }
    let Extent { bytes, depth } = attributes.extent(0, LARGEST_ATTRIBUTES);
    if bytes > ATTRIBUTES_BYTES || depth > ATTRIBUTES_DEPTH {
        return Err(AdminError::AttributesTooLarge.into());
    }
    Ok(())
}

fn bad(argument: &'static str, problem: Problem) -> ClaimsError {
    BadInput::new(argument, problem).into()
}

/// Registers a cell. A role that loses its last cell loses the grants of cells, but keeps those of grant_read().
fn register(call: &Call, role_name: &str, cell: &CellRegistration) -> Result<(), ClaimsError> {
    // Two calls that register one cell serialize here, so the second one sees the role that the first has set.
    ROLE_TABLES.of(call).lock_grants(call.connection)?;
    let before = ROLE_TABLES.of(call).role_of_cell(call.connection, cell.cell_id);
    // The grants come before the row, because their error names the node that lacks the role. An error of the row names none.
    ROLE_TABLES.of(call).change_grants(call.connection, role_name, &["reader", "cell"], true);
    ROLE_TABLES.of(call).register(call.connection, cell);
    if let Some(before) = before.filter(|before| *before != cell.role) {
        take_away(call, before);
    }
    Ok(())
}

/// Revokes the grants of cells from a role that has lost a cell, if it was the last one.
pub fn take_away(call: &Call, before: Oid) {
    if ROLE_TABLES.of(call).has_cells(call.connection, before) {
        return;
    }
    let Some(old_name) = statements::role_name(call.connection, before) else { return };
    ROLE_TABLES.of(call).change_grants(call.connection, &old_name, &["cell"], false);
    if !grants::has(call.connection, Audience::Reader, before) {
        ROLE_TABLES.of(call).change_grants(call.connection, &old_name, &["reader"], false);
    }
}
