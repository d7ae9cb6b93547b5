//! Statements on cells and on privileges of roles for distributed tables. A role has another oid on each node, and each node
//! needs its own grants.

use claims_model::{Bucket, Types};
use pgrx::pg_sys::Oid;

use super::distribute::{here_only, on_other_nodes};
use super::door::Citus;
use super::extension;
use super::transfers::held;
use crate::error::{ClaimsError, or_raise};
use crate::tables::door::{AuditTables, RoleTables};
use crate::tables::rows::audit::AuditRow;
use crate::tables::rows::cells::CellRegistration;
use crate::tables::rows::feed::Change;
use crate::tables::rows::transfers::Transfer;
use crate::tables::shared::admin::granted;
use crate::tables::shared::audit;
use pg::roles;
use pg::spi::{Connection, View};
use pg::statement::shared_statement;

shared_statement! {
    /// Returns the roles of readers, workers and monitors, each recognized by the view or table that only its kind may read.
    READERS_AND_OTHERS() = concat!(
        "SELECT r.rolname::text, k.audiences FROM (", granted!(), ") AS k (role, audiences) JOIN pg_roles r ON r.oid = k.role ORDER BY 1");
    /// Returns the grants on relations of this node, as statements.
    OF_RELATIONS() =
        "SELECT string_agg(format('GRANT SELECT ON %s TO %I', c.oid::regclass, r.rolname), '; ' ORDER BY c.relname, r.rolname)
           FROM pg_class c, aclexplode(c.relacl) a JOIN pg_roles r ON r.oid = a.grantee
          WHERE c.relnamespace = 'claims'::regnamespace AND a.privilege_type = 'SELECT' AND a.grantee <> c.relowner";
    ROLES_OF_CELLS() = "SELECT DISTINCT c.role_name::text FROM claims.cells c WHERE c.role_name IS NOT NULL ORDER BY 1";
    CHANGE_GRANTS(TEXTOID, TEXTARRAYOID, BOOLOID) = "SELECT claims.change_grants($1::name, $2, $3)";
    CALL_OF_CHANGE_GRANTS(TEXTOID, TEXTARRAYOID, BOOLOID) =
        "SELECT format('PERFORM claims.change_grants(%L, %L::text[], %L)', $1, $2, $3)";
    ROLE_NAME_OF_CELL(INT8OID) = "SELECT c.role_name::text FROM claims.cells c WHERE c.cell_id = $1";
    REGISTER_BY_NAME(INT8OID, TEXTOID, TEXTOID, TEXTOID, JSONBOID) =
        "INSERT INTO claims.cells AS c (cell_id, role, role_name, name, address, attributes)
         VALUES ($1, quote_ident($2)::regrole, $2::name, $3, $4, $5)
         ON CONFLICT (cell_id) DO UPDATE
         SET role = excluded.role, role_name = excluded.role_name, name = coalesce(excluded.name, c.name),
             address = coalesce(excluded.address, c.address), attributes = coalesce(excluded.attributes, c.attributes)";
    HAS_CELLS_BY_NAME(TEXTOID) = "SELECT count(*) > 0 FROM claims.cells c WHERE c.role_name = $1::name";
}

/// Each node has a log of its own.
impl AuditTables for Citus {
    fn record_audit(&self, connection: &Connection, rows: &[AuditRow]) {
        audit::record(connection, rows);
    }

    fn audit_moved(&self, connection: &Connection, types: &Types, transfer: &Transfer, like: &AuditRow) {
        for portion in held(connection, transfer).chunks(1000) {
            let name = |bucket: &Bucket| types.bucket.first_name(bucket.bucket_type).unwrap_or_default();
            audit::record(
                connection,
                &[AuditRow {
                    ops: vec![Change::Transfer(transfer.from_cell, transfer.to_cell).op(); portion.len()],
                    bucket_types: portion.iter().map(name).collect(),
                    bucket_values: portion.iter().map(|bucket| &*bucket.value).collect(),
                    ..like.clone()
                }],
            );
        }
    }
}

impl RoleTables for Citus {
    fn register(&self, connection: &Connection, cell: &CellRegistration) {
        let CellRegistration { cell_id, role, name, address, attributes } = cell;
        let values = [
            (*cell_id).into(),
            roles::name(*role).into(),
            name.clone().into(),
            address.clone().into(),
            attributes.clone().into(),
        ];
        connection.run(&REGISTER_BY_NAME, View::Statement, values);
    }

    fn role_of_cell(&self, connection: &Connection, cell_id: i64) -> Option<Oid> {
        let name = connection.run(&ROLE_NAME_OF_CELL, View::Latest, [cell_id.into()]).first(|row| row.get::<String>(1));
        name.flatten().and_then(|name| roles::by_name(&name))
    }

    fn has_cells(&self, connection: &Connection, role: Oid) -> bool {
        let name = roles::name(role);
        connection.run(&HAS_CELLS_BY_NAME, View::Latest, [name.into()]).first(|row| row.must(1)).unwrap_or(false)
    }

    fn change_grants(&self, connection: &Connection, role_name: &str, audiences: &[&str], granting: bool) {
        let audiences: Vec<_> = audiences.iter().map(|audience| (*audience).to_owned()).collect();
        let values = || [role_name.into(), audiences.clone().into(), granting.into()];
        here_only(|| {
            connection.run(&CHANGE_GRANTS, View::Statement, values());
        });
        let call = connection.run(&CALL_OF_CHANGE_GRANTS, View::Latest, values()).first(|row| row.must::<String>(1));
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
        let cells: Vec<String> = connection.run(&ROLES_OF_CELLS, View::Latest, []).map(|row| row.must(1));
        for role in cells.iter().filter(|role| roles::by_name(role).is_some()) {
            self.change_grants(connection, role, &["reader", "cell"], true);
        }
        let others = connection.run(&READERS_AND_OTHERS, View::Latest, []);
        for (role, audiences) in others.map(|row| (row.must::<String>(1), row.must::<Vec<String>>(2))) {
            let audiences: Vec<_> = audiences.iter().map(String::as_str).collect();
            self.change_grants(connection, &role, &audiences, true);
        }
        let of_relations = connection.run(&OF_RELATIONS, View::Latest, []).first(|row| row.get::<String>(1)).flatten();
        if let Some(grants) = of_relations {
            or_raise(on_other_nodes(connection, &grants));
        }
    }

    fn role(&self, _number: Oid, name: Option<String>) -> Oid {
        name.and_then(|name| roles::by_name(&name)).unwrap_or(Oid::INVALID)
    }

    fn require_own_nodes(&self, connection: &Connection) -> Result<(), ClaimsError> {
        extension::require_own_nodes(connection)
    }

    fn hand_over(&self, connection: &Connection) -> Result<(), ClaimsError> {
        extension::hand_over(connection)
    }
}
