//! The declarations that may claim names in one database, where automatic mode claims in the database itself.
//!
//! Roles of several cells may own tables there. A declaration counts while the table's owner may act for the cell of automatic mode. It also
//! counts if a role that may act for this cell, or an administrator, made it, as long as the table has the same owner. The owner of the table
//! is looked up whenever names are claimed: it can change after the declaration, and so can the cell.

use claims_model::origin::{Approval, Declared};
use claims_model::routes::Route;
use pgrx::pg_sys::Oid;

use crate::cell::{availability, routes};
use crate::kernel::catalog;
use pg::roles;
use pg::spi::Connection;

/// The cell for which automatic mode claims names in this database.
pub struct OwnCell {
    pub cell_id: i64,
    /// `None` if the cell is not registered any more.
    role: Option<Oid>,
}

/// Returns the cell for which automatic mode claims names in this database, or `None` if it does not.
pub fn own_cell(connection: &Connection) -> Option<OwnCell> {
    let routes = routes::automatic(connection)?;
    let is_here = routes.others == Some(Route::Here);
    is_here.then(|| {
        let cell_id = routes.cell_id;
        OwnCell { cell_id, role: catalog::current(connection).cells.get(&cell_id).map(|cell| cell.role) }
    })
}

impl OwnCell {
    /// Returns whether a role may act for the cell.
    pub fn has(&self, role: Oid) -> bool {
        self.role.is_some_and(|cell| roles::has_privileges_of(role, cell)) || roles::is_admin(role)
    }

    /// Returns whether a declaration on a table of `owner` may claim names for the cell.
    pub fn accepts(&self, owner: Oid, approval: &Approval) -> bool {
        approval.covers(owner.to_u32(), self.cell_id) || self.has(owner)
    }

    pub fn accepts_declared(&self, declared: &Declared) -> bool {
        self.accepts(Oid::from(declared.owner), &declared.approval)
    }
}

/// Returns the cell whose tables this database has: the one for which automatic mode claims names, or the only one that the worker attends to,
/// or the only one that is registered. `None` if that is unknown.
pub fn cell_of_database(connection: &Connection) -> Option<i64> {
    if let Some(routes) = availability::routes(connection) {
        return Some(routes.cell_id);
    }
    let catalog = catalog::current(connection);
    let mut cells = catalog.cells.keys();
    cells.next().filter(|_| cells.next().is_none()).copied()
}
