//! The rights of roles.

use super::admin;
use super::distribution::on_other_nodes;
use crate::distribution;
use crate::error::or_raise;
use crate::pg::roles;
use crate::pg::spi::{Connection, View};
use crate::pg::statement::{shared_statement, statement};

/// Roles that are let read what only their kind is.
macro_rules! granted {
    () => {
        "SELECT a.grantee, '{reader,router}'::text[] FROM pg_class v, aclexplode(v.relacl) a
          WHERE v.oid = 'claims.records'::regclass AND a.privilege_type = 'SELECT' AND a.grantee <> v.relowner
         UNION SELECT a.grantee, '{monitor}' FROM pg_class v, aclexplode(v.relacl) a
          WHERE v.oid = 'claims.leases'::regclass AND a.privilege_type = 'SELECT' AND a.grantee <> v.relowner
         UNION SELECT a.grantee, '{worker}' FROM pg_class t, aclexplode(t.relacl) a
          WHERE t.oid = 'claims.expiring_claims'::regclass AND a.privilege_type = 'SELECT' AND a.grantee <> t.relowner"
    };
}

shared_statement! {
    /// Serializes administrators: two that grant on one function at the same time get \"tuple concurrently updated\".
    LOCK() = "LOCK TABLE claims.audiences IN SHARE ROW EXCLUSIVE MODE";
    /// The role of a cell is known by the cell, that of a reader or a worker by the view or table that only it is granted.
    READERS_AND_OTHERS() = concat!(
        "SELECT r.rolname::text, k.audiences FROM (", granted!(), ") AS k (role, audiences) JOIN pg_roles r ON r.oid = k.role ORDER BY 1");
    /// What was granted of relations on this node, as statements.
    OF_RELATIONS() =
        "SELECT string_agg(format('GRANT SELECT ON %s TO %I', c.oid::regclass, r.rolname), '; ' ORDER BY c.relname, r.rolname)
           FROM pg_class c, aclexplode(c.relacl) a JOIN pg_roles r ON r.oid = a.grantee
          WHERE c.relnamespace = 'claims'::regnamespace AND a.privilege_type = 'SELECT' AND a.grantee <> c.relowner";
    ROLES_OF_CELLS() = "SELECT DISTINCT c.role_name::text FROM claims.cells c WHERE c.role_name IS NOT NULL ORDER BY 1";
}

statement! {
    REFRESH() = concat!(
        "SELECT claims.change_grants(r.rolname, k.audiences, true)
           FROM (SELECT c.role::oid, '{reader,cell}'::text[] FROM claims.cells c UNION ", granted!(), ")
                AS k (role, audiences)
           JOIN pg_roles r ON r.oid = k.role");
}

/// Grants every role what its kind has in this version.
pub fn refresh(connection: &Connection) {
    connection.run(&LOCK, View::Statement, []);
    if !distribution::is_spread() {
        connection.run(&REFRESH, View::Statement, []);
        return;
    }
    let cells: Vec<String> = connection.run(&ROLES_OF_CELLS, View::Latest, []).map(|row| row.must(1));
    for role in cells.iter().filter(|role| roles::called(role).is_some()) {
        admin::change_grants(connection, role, &["reader", "cell"], true);
    }
    let others = connection.run(&READERS_AND_OTHERS, View::Latest, []);
    for (role, audiences) in others.map(|row| (row.must::<String>(1), row.must::<Vec<String>>(2))) {
        let audiences: Vec<_> = audiences.iter().map(String::as_str).collect();
        admin::change_grants(connection, &role, &audiences, true);
    }
    let of_relations = connection.run(&OF_RELATIONS, View::Latest, []).first(|row| row.get::<String>(1)).flatten();
    if let Some(grants) = of_relations {
        or_raise(on_other_nodes(connection, &grants));
    }
}
