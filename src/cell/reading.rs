//! Who may read the rows of claimed tables through the calls of a cell: roles that may act for the cell whose tables they are, and roles that
//! may read the tables themselves.

use super::claimed::{authority, declared};
use crate::kernel::catalog::{self, Catalog};
use crate::kernel::error::{AccessError, ClaimsError};
use crate::kernel::{access, arguments};
use pg::prelude::*;
use pg::roles;
use pg::spi::{self, Connection};

/// Returns the first name of a source type. Raises an error unless the caller may act for the cell of this database, or read all its tables.
pub fn readable_source_type(connection: &Connection, source_type: &str) -> Result<String, ClaimsError> {
    let (_, source_type) = arguments::source_type(source_type, &catalog::current(connection).types)?;
    access::refuse_restricted()?;
    if acts_for_database_in(connection) {
        return Ok(source_type);
    }
    let caller = roles::caller();
    match declared::unreadable_table(connection, &source_type, caller) {
        None => Ok(source_type),
        Some(table) => Err(AccessError::MayNotRead { table, caller: roles::name(caller) }.into()),
    }
}

/// Returns the first name of a source type. Raises an error unless the caller may act for the cell ([`require_for`]).
pub fn source_type_of(connection: &Connection, cell_id: i64, source_type: &str) -> Result<String, ClaimsError> {
    let catalog = catalog::current(connection);
    require_for(connection, &catalog, cell_id)?;
    Ok(arguments::source_type(source_type, &catalog.types)?.1)
}

/// Raises an error unless the caller may act for a cell, and this database has the tables of that cell. Where automatic mode claims names in this
/// database, roles of other cells call here, too.
pub fn require_for(connection: &Connection, catalog: &Catalog, cell_id: i64) -> Result<(), ClaimsError> {
    access::act_here_for(catalog, cell_id)?;
    match authority::own_cell(connection) {
        Some(own_cell) => access::act_for(catalog, own_cell.cell_id),
        None => Ok(()),
    }
}

/// Returns whether the caller may act for the cell of this database.
fn acts_for_database_in(connection: &Connection) -> bool {
    let caller = roles::caller();
    let role =
        || catalog::current(connection).cells.get(&authority::cell_of_database(connection)?).map(|cell| cell.role);
    roles::caller_is_admin() || role().is_some_and(|role| roles::has_privileges_of(caller, role))
}

/// Returns whether the caller may see source ids of a cell's verification, for claims.verification_progress and the like: whether it may act for
/// the cell, or read all claimed tables of the source type.
#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn may_read_sources(cell_id: Option<i64>, source_type: Option<&str>) -> Result<bool, ErrorReport> {
    // Code that PostgreSQL runs for another role sees nothing by the rights of that role.
    let named = cell_id.zip(source_type).filter(|_| !roles::is_restricted());
    let Some((cell_id, source_type)) = named else { return Ok(false) };
    let may_read = |connection: &Connection| {
        let caller = roles::caller();
        let catalog = catalog::current(connection);
        let acts_for =
            |cell_id| catalog.cells.get(&cell_id).is_some_and(|cell| roles::has_privileges_of(caller, cell.role));
        roles::caller_is_admin()
            || acts_for(cell_id) && authority::own_cell(connection).is_none_or(|own| acts_for(own.cell_id))
            || declared::source_types(connection).iter().any(|declared| declared == source_type)
                && declared::unreadable_table(connection, source_type, caller).is_none()
    };
    Ok(spi::connect(may_read))
}

/// Returns whether the caller may act for the cell of this database, for claims.claimed_columns.
#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn acts_for_database() -> Result<bool, ErrorReport> {
    access::refuse_restricted()?;
    Ok(spi::connect(acts_for_database_in))
}
