//! Statements on cells and on privileges of roles for distributed tables. A role has another oid on each node, and each node
//! needs its own grants.

use pgrx::pg_sys::Oid;

use super::cluster::Citus;
use super::distribute::{here_only, on_other_nodes};
use super::extension;
use crate::kernel::error::{ClaimsError, or_raise};
use crate::service::admin::statements::{self, Grantee};
use crate::service::admin::{CellRegistration, RoleTables};
use crate::service::audit::{AuditRow, AuditTables, audit_log};
use pg::jsonb::Jsonb;
use pg::query::query;
use pg::roles;
use pg::spi::Connection;

query! {
    /// Returns the grants on relations of this node, as statements.
    fn grants_on_relations() -> Option<Option<String>> = [Latest Anywhere]
        "SELECT string_agg(format('GRANT SELECT ON %s TO %I', c.oid::regclass, r.rolname), '; ' ORDER BY c.relname, r.rolname)
           FROM pg_class c, aclexplode(c.relacl) a JOIN pg_roles r ON r.oid = a.grantee
          WHERE c.relnamespace = 'claims'::regnamespace AND a.privilege_type = 'SELECT' AND a.grantee <> c.relowner";
    fn roles_of_cells() -> Vec<String> = [Latest Anywhere]
        "SELECT DISTINCT c.role_name::text FROM claims.cells c WHERE c.role_name IS NOT NULL ORDER BY 1";
    fn change_here(role_name: &str, audiences: &[&str], granting: bool) = [Statement Anywhere]
        "SELECT claims.change_grants(:role_name::name, :audiences, :granting)";
    fn call_of_change(role_name: &str, audiences: &[&str], granting: bool) -> Option<String> = [Latest Anywhere]
        "SELECT format('PERFORM claims.change_grants(%L, %L::text[], %L)', :role_name, :audiences, :granting)";
    fn role_name_of(cell_id: i64) -> Option<Option<String>> = [Latest Anywhere]
        "SELECT c.role_name::text FROM claims.cells c WHERE c.cell_id = :cell_id";
    fn put(cell_id: i64, role_name: &str, name: Option<&str>, address: Option<&str>, attributes: Option<Jsonb>) = [Statement Anywhere]
        "INSERT INTO claims.cells AS c (cell_id, role, role_name, name, address, attributes)
         VALUES (:cell_id, quote_ident(:role_name)::regrole, :role_name::name, :name, :address, :attributes)
         ON CONFLICT (cell_id) DO UPDATE
         SET role = excluded.role, role_name = excluded.role_name, name = coalesce(excluded.name, c.name),
             address = coalesce(excluded.address, c.address), attributes = coalesce(excluded.attributes, c.attributes)";
    fn has_cell(role_name: &str) -> bool = [Latest Anywhere]
        "SELECT count(*) > 0 FROM claims.cells c WHERE c.role_name = :role_name::name";
}

/// Each node has a log of its own.
impl AuditTables for Citus {
    fn record_audit(&self, connection: &Connection, rows: &[AuditRow]) {
        audit_log::record(connection, rows);
    }
}

impl RoleTables for Citus {
    fn register(&self, connection: &Connection, cell: &CellRegistration) {
        let CellRegistration { cell_id, role, name, address, attributes } = cell;
        put(connection, *cell_id, &roles::name(*role), name.as_deref(), address.as_deref(), attributes.clone());
    }

    fn role_of_cell(&self, connection: &Connection, cell_id: i64) -> Option<Oid> {
        role_name_of(connection, cell_id).flatten().and_then(|name| roles::by_name(&name))
    }

    fn has_cells(&self, connection: &Connection, role: Oid) -> bool {
        has_cell(connection, &roles::name(role))
    }

    fn change_grants(&self, connection: &Connection, role_name: &str, audiences: &[&str], granting: bool) {
        here_only(|| change_here(connection, role_name, audiences, granting));
        let call = call_of_change(connection, role_name, audiences, granting);
        or_raise(on_other_nodes(connection, &call.unwrap_or_default()));
    }

    fn grant(&self, connection: &Connection, grant: &str) {
        here_only(|| {
            connection.run_text(grant, []);
        });
        or_raise(on_other_nodes(connection, grant));
    }

    fn refresh_grants(&self, connection: &Connection) {
        or_raise(extension::forbid_parallel(connection));
        for role in roles_of_cells(connection).iter().filter(|role| roles::by_name(role).is_some()) {
            self.change_grants(connection, role, &["reader", "cell"], true);
        }
        for Grantee { rolname, audiences } in statements::readers_and_others(connection) {
            let audiences: Vec<_> = audiences.iter().map(String::as_str).collect();
            self.change_grants(connection, &rolname, &audiences, true);
        }
        if let Some(grants) = grants_on_relations(connection).flatten() {
            or_raise(on_other_nodes(connection, &grants));
        }
    }

    fn require_own_nodes(&self, connection: &Connection) -> Result<(), ClaimsError> {
        extension::require_own_nodes(connection)
    }

    fn hand_over(&self, connection: &Connection) -> Result<(), ClaimsError> {
        extension::hand_over(connection)
    }
}
