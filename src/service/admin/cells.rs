//! Registers cells and their roles, and removes cells that are gone.

use std::time::Instant;

use claims_json::{Token, Tokens};
use claims_model::limits::{ATTRIBUTES_BYTES, ATTRIBUTES_DEPTH, CELL_TEXT_CHARS};
use claims_model::{BadInput, Problem};
use pgrx::pg_sys::Oid;

use super::errors::AdminError;
use super::grants::{self, Audience, role_called};
use super::statements;
use super::tables::{CellRegistration, Leftovers, ROLE_TABLES};
use crate::kernel::admin_action::AdminAction;
use crate::kernel::arguments;
use crate::kernel::call::{Call, answer};
use crate::kernel::error::{AccessError, ClaimsError, TablesError};
use crate::kernel::settings;
use crate::service::claims::kept;
use crate::service::lock_timeout;
use pg::jsonb::{Extent, Jsonb};
use pg::name::Name;
use pg::prelude::*;
use pg::settings::LockWaits;
use pg::subtransaction::{LOCK_ERRORS, translate_error};

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

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn remove_cell(cell_id: Option<i64>, reason: Option<String>) -> Result<(), ErrorReport> {
    answer(|| {
        let action = AdminAction::begin("remove_cell", reason)?;
        let cell_id = arguments::required(cell_id, "cell_id")?;
        action.with("cell_id", cell_id).perform(|call| {
            // Under this lock no other session registers the cell or gives its role another cell.
            ROLE_TABLES.of(call).lock_grants(call.connection)?;
            let Some(role) = ROLE_TABLES.of(call).role_of_cell(call.connection, cell_id) else {
                return Err(AccessError::UnknownCell { cell_id }.into());
            };
            if let Some(Leftovers { claims, leases, transfers }) = statements::leftovers(call.connection, cell_id) {
                return Err(AdminError::CellInUse { cell_id, claims, leases, transfers }.into());
            }
            statements::remove(call.connection, cell_id);
            let _waits = LockWaits::until(Instant::now() + settings::wait_timeout().max(lock_timeout(1)));
            translate_error(
                LOCK_ERRORS,
                || TablesError::Locked.into(),
                || {
                    kept::end_rights(call.connection, cell_id);
                    Ok::<_, ClaimsError>(())
                },
            )?;
            take_away(call, role);
            Ok(())
        })
    })
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
