//! Statements on cells and on privileges of roles.

use pgrx::pg_sys::Oid;

use crate::kernel::tables::Local;
use crate::service::admin::statements::{self, Grantee};
use crate::service::admin::tables::{CellRegistration, RoleTables};
use pg::jsonb::Jsonb;
use pg::query::query;
use pg::spi::Connection;

query! {
    fn role_of(cell_id: i64) -> Option<Oid> = [Latest] "SELECT c.role::oid FROM claims.cells c WHERE c.cell_id = :cell_id";
    /// Inserts or updates a cell. A NULL argument leaves the column unchanged.
    fn put(cell_id: i64, role: Oid, name: Option<&str>, address: Option<&str>, attributes: Option<Jsonb>) = [Statement]
        "INSERT INTO claims.cells AS c (cell_id, role, name, address, attributes) VALUES (:cell_id, :role::regrole, :name, :address, :attributes)
         ON CONFLICT (cell_id) DO UPDATE
         SET role = excluded.role, name = coalesce(excluded.name, c.name), address = coalesce(excluded.address, c.address),
             attributes = coalesce(excluded.attributes, c.attributes)";
    fn has_cell(role: Oid) -> bool = [Latest] "SELECT EXISTS (SELECT FROM claims.cells c WHERE c.role = :role::regrole)";
    fn change(role_name: &str, audiences: &[&str], granting: bool) = [Statement]
        "SELECT claims.change_grants(:role_name::name, :audiences, :granting)";
    fn refresh_cells() = [Statement]
        "SELECT claims.change_grants(r.rolname, '{reader,cell}', true)
           FROM (SELECT DISTINCT c.role::oid FROM claims.cells c) AS k (role) JOIN pg_roles r ON r.oid = k.role";
}

impl RoleTables for Local {
    fn register(&self, connection: &Connection, cell: &CellRegistration) {
        let CellRegistration { cell_id, role, name, address, attributes } = cell;
        put(connection, *cell_id, *role, name.as_deref(), address.as_deref(), attributes.clone());
    }

    fn role_of_cell(&self, connection: &Connection, cell_id: i64) -> Option<Oid> {
        role_of(connection, cell_id)
    }

    fn has_cells(&self, connection: &Connection, role: Oid) -> bool {
        has_cell(connection, role)
    }

    fn change_grants(&self, connection: &Connection, role_name: &str, audiences: &[&str], granting: bool) {
        change(connection, role_name, audiences, granting);
    }

    fn refresh_grants(&self, connection: &Connection) {
        refresh_cells(connection);
        for Grantee { rolname, audiences } in statements::readers_and_others(connection) {
            change(connection, &rolname, &audiences.iter().map(String::as_str).collect::<Vec<_>>(), true);
        }
    }

    fn grant(&self, connection: &Connection, grant: &str) {
        connection.run_text(grant, []);
    }
}
