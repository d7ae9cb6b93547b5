//! Statements on cells and on privileges of roles.

use pgrx::pg_sys::Oid;

use super::door::Local;
use crate::tables::door::RoleTables;
use crate::tables::rows::cells::CellRegistration;
use crate::tables::shared::admin::granted;
use pg::spi::{Connection, View};
use pg::statement::statement;

statement! {
    ROLE_OF_CELL(INT8OID) = "SELECT c.role::oid FROM claims.cells c WHERE c.cell_id = $1";
    /// Inserts or updates a cell. A NULL argument leaves the column unchanged.
    REGISTER(INT8OID, OIDOID, TEXTOID, TEXTOID, JSONBOID) =
        "INSERT INTO claims.cells AS c (cell_id, role, name, address, attributes) VALUES ($1, $2::regrole, $3, $4, $5)
         ON CONFLICT (cell_id) DO UPDATE
         SET role = excluded.role, name = coalesce(excluded.name, c.name), address = coalesce(excluded.address, c.address),
             attributes = coalesce(excluded.attributes, c.attributes)";
    HAS_CELLS(OIDOID) = "SELECT EXISTS (SELECT FROM claims.cells c WHERE c.role = $1::regrole)";
    CHANGE_GRANTS(TEXTOID, TEXTARRAYOID, BOOLOID) = "SELECT claims.change_grants($1::name, $2, $3)";

    REFRESH() = concat!(
        "SELECT claims.change_grants(r.rolname, k.audiences, true)
           FROM (SELECT c.role::oid, '{reader,cell}'::text[] FROM claims.cells c UNION ", granted!(), ")
                AS k (role, audiences)
           JOIN pg_roles r ON r.oid = k.role");
}

impl RoleTables for Local {
    fn register(&self, connection: &Connection, cell: &CellRegistration) {
        let CellRegistration { cell_id, role, name, address, attributes } = cell;
        let values =
            [(*cell_id).into(), (*role).into(), name.clone().into(), address.clone().into(), attributes.clone().into()];
        connection.run(&REGISTER, View::Statement, values);
    }

    fn role_of_cell(&self, connection: &Connection, cell_id: i64) -> Option<Oid> {
        connection.run(&ROLE_OF_CELL, View::Latest, [cell_id.into()]).first(|row| row.must(1))
    }

    fn has_cells(&self, connection: &Connection, role: Oid) -> bool {
        connection.run(&HAS_CELLS, View::Latest, [role.into()]).first(|row| row.must(1)).unwrap_or(false)
    }

    fn change_grants(&self, connection: &Connection, role_name: &str, audiences: &[&str], granting: bool) {
        let audiences: Vec<_> = audiences.iter().map(|audience| (*audience).to_owned()).collect();
        connection.run(&CHANGE_GRANTS, View::Statement, [role_name.into(), audiences.into(), granting.into()]);
    }

    fn refresh_grants(&self, connection: &Connection) {
        connection.run(&REFRESH, View::Statement, []);
    }

    fn role(&self, number: Oid, _name: Option<String>) -> Oid {
        number
    }

    fn grant(&self, connection: &Connection, grant: &str) {
        connection.run_text(grant, []);
    }
}
