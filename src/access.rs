//! Authorization. Identity is a role, never a setting.

use claims_model::{BadInput, Problem};

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::distribution;
use crate::error::{AccessError, ClaimsError};
use crate::pg::{gate, roles};
use crate::store::catalog::{Catalog, Cell};

/// The value of an argument that must not be NULL.
pub fn given<T>(argument: Option<T>, name: &str) -> Result<T, ClaimsError> {
    argument.ok_or_else(|| BadInput::new(name, Problem::Null).into())
}

/// Allows callers with the privileges of the cell's role, and administrators.
pub fn act_for(catalog: &Catalog, cell_id: i64) -> Result<(), ClaimsError> {
    refuse_restricted()?;
    let caller = roles::caller();
    match catalog.cells.get(&cell_id) {
        Some(cell) if roles::has_privileges_of(caller, cell.role) || roles::caller_is_admin() => Ok(()),
        None if roles::caller_is_admin() => Err(AccessError::UnknownCell { cell_id }.into()),
        _ => Err(AccessError::NotTheCell { cell_id, caller: roles::name(caller) }.into()),
    }
}

/// As [`act_for`], for functions of a cell's own database: while no cell is registered in it, administrators may
/// name any cell; the service decides.
pub fn act_here_for(catalog: &Catalog, cell_id: i64) -> Result<(), ClaimsError> {
    refuse_restricted()?;
    if catalog.cells.is_empty() && roles::caller_is_admin() { Ok(()) } else { act_for(catalog, cell_id) }
}

/// The cells that the caller may act for; `None`: any, it is an administrator.
pub fn cells_of_caller(catalog: &Catalog) -> Result<Option<Vec<i64>>, ClaimsError> {
    refuse_restricted()?;
    let caller = roles::caller();
    let is_his = |(cell_id, cell): (&i64, &Cell)| roles::has_privileges_of(caller, cell.role).then_some(*cell_id);
    Ok((!roles::caller_is_admin()).then(|| catalog.cells.iter().filter_map(is_his).collect()))
}

/// Allows administrators only, and where the tables are spread on the coordinator.
pub fn administer() -> Result<(), ClaimsError> {
    read_as_administrator()?;
    Ok(distribution::require_coordinator()?)
}

/// Allows administrators only, who change nothing.
pub fn read_as_administrator() -> Result<(), ClaimsError> {
    refuse_restricted()?;
    if roles::caller_is_admin() {
        Ok(())
    } else {
        Err(AccessError::NotAdmin { caller: roles::name(roles::caller()) }.into())
    }
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

/// Refuses calls where the tables are not what they are taken for, and from code that Postgres runs on behalf of another role.
pub fn refuse_restricted() -> Result<(), ClaimsError> {
    gate::pass();
    if roles::is_restricted() { Err(AccessError::Restricted.into()) } else { Ok(()) }
}

/// For SQL functions that read tables: raises unless those are what the library takes them for.
#[pg_extern(schema = "claims", security_definer, stable, parallel_safe)]
#[search_path(pg_catalog, pg_temp)]
fn require_own_tables() {
    gate::pass();
}

/// For SQL functions that cannot read spread tables: raises where they are.
#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn require_tables_here() -> Result<(), ErrorReport> {
    gate::pass();
    Ok(distribution::require_here().map_err(ClaimsError::from)?)
}

/// For SQL functions: raises unless the caller is an administrator.
#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn require_admin() -> Result<(), ErrorReport> {
    Ok(administer()?)
}

/// For SQL functions: whether the caller is an administrator.
#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn caller_is_admin() -> Result<bool, ErrorReport> {
    refuse_restricted()?;
    Ok(roles::caller_is_admin())
}
