//! Authorization. Identity is a role, never a setting.

use super::catalog::{CELL_OF_DATABASE, Catalog, Cell};
use super::error::{AccessError, ClaimsError};
use super::{limits, refusals, tables, version};
use pg::prelude::*;
use pg::{compatibility, roles};

/// Allows callers with the privileges of the cell's role, and administrators.
pub fn act_for(catalog: &Catalog, cell_id: i64) -> Result<(), ClaimsError> {
    refuse_restricted()?;
    let caller = roles::caller();
    match catalog.cells.get(&cell_id) {
        Some(cell) if roles::has_privileges_of(caller, cell.role) || roles::caller_is_admin() => Ok(()),
        None if roles::caller_is_admin() => Err(AccessError::UnknownCell { cell_id }.into()),
        _ => {
            Err(denied(Some(catalog), Some(cell_id), AccessError::NotTheCell { cell_id, caller: roles::name(caller) }))
        }
    }
}

/// Like [`act_for`], for functions of a cell's own database. While no cell is registered in it, administrators may name
/// any cell, because the service decides. The cell that unique columns need is none that was registered.
pub fn act_here_for(catalog: &Catalog, cell_id: i64) -> Result<(), ClaimsError> {
    refuse_restricted()?;
    let has_cells = catalog.cells.keys().any(|cell| *cell != CELL_OF_DATABASE);
    if !has_cells && roles::caller_is_admin() { Ok(()) } else { act_for(catalog, cell_id) }
}

/// Returns the cells that the caller may act for. Returns `None` for an administrator, who may act for any.
pub fn cells_of_caller(catalog: &Catalog) -> Result<Option<Vec<i64>>, ClaimsError> {
    refuse_restricted()?;
    let caller = roles::caller();
    let is_his = |(cell_id, cell): (&i64, &Cell)| roles::has_privileges_of(caller, cell.role).then_some(*cell_id);
    Ok((!roles::caller_is_admin()).then(|| catalog.cells.iter().filter_map(is_his).collect()))
}

/// Allows administrators only. If the tables are distributed, allows the call only on the coordinator.
pub fn administer() -> Result<(), ClaimsError> {
    read_as_administrator()?;
    tables::at_entry().require_coordinator()
}

/// Allows administrators only, for calls that change nothing.
pub fn read_as_administrator() -> Result<(), ClaimsError> {
    refuse_restricted()?;
    if roles::caller_is_admin() {
        Ok(())
    } else {
        Err(denied(None, None, AccessError::NotAdmin { caller: roles::name(roles::caller()) }))
    }
}

/// Returns the error of a denied call, and has the audit log record it.
fn denied(catalog: Option<&Catalog>, cell_id: Option<i64>, error: AccessError) -> ClaimsError {
    refusals::denied(cell_id, || {
        // A number that is no cell's shares the rate of calls that name none.
        let named = catalog.zip(cell_id).filter(|(catalog, cell_id)| catalog.cells.contains_key(cell_id));
        named.map_or((refusals::NO_CELL, limits::REFUSALS_PER_SECOND), |(catalog, cell_id)| {
            (cell_id, catalog.refusals_per_second(cell_id))
        })
    });
    error.into()
}

/// Allows callers with the privileges of a table's owner, and administrators.
pub fn own_or_administer(owner: pg_sys::Oid) -> Result<(), ClaimsError> {
    refuse_restricted()?;
    let caller = roles::caller();
    if roles::has_privileges_of(caller, owner) || roles::caller_is_admin() {
        Ok(())
    } else {
        Err(AccessError::NotTheOwner { caller: roles::name(caller) }.into())
    }
}

/// Runs the compatibility check, and refuses calls from code that PostgreSQL runs for another role.
pub fn refuse_restricted() -> Result<(), ClaimsError> {
    compatibility::require();
    if roles::is_restricted() { Err(AccessError::Restricted.into()) } else { Ok(()) }
}

/// Runs the compatibility check for SQL functions that read tables. The SQL functions of an extension that is older than the library read
/// tables of their own version: `metrics()` and `passes` say that an update has failed.
#[pg_extern(schema = "claims", security_definer, stable, parallel_safe)]
#[search_path(pg_catalog, pg_temp)]
fn require_own_tables() {
    if version::are_tables_older() {
        tables::require_own();
    } else {
        compatibility::require();
    }
}

/// Raises an error for SQL functions that cannot read distributed tables, if the tables are.
#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn require_tables_here() -> Result<(), ErrorReport> {
    Ok(tables::at_entry().require_here()?)
}

/// Raises an error for SQL functions unless the caller is an administrator.
#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn require_admin() -> Result<(), ErrorReport> {
    Ok(administer()?)
}

/// Returns whether the caller is an administrator, for SQL functions.
#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn caller_is_admin() -> Result<bool, ErrorReport> {
    refuse_restricted()?;
    Ok(roles::caller_is_admin())
}
