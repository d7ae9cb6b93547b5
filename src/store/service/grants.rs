//! The rights of roles.

use crate::pg::spi::{Connection, View};
use crate::pg::statement::statement;

statement! {
    /// Serializes administrators: two that grant on one function at the same time get \"tuple concurrently updated\".
    LOCK() = "LOCK TABLE claims.audiences IN SHARE ROW EXCLUSIVE MODE";
    /// The role of a cell is known by the cell, that of a reader or a worker by the view or table that only it is granted.
    REFRESH() =
        "SELECT claims.change_grants(r.rolname, k.audiences, true)
           FROM (SELECT c.role::oid, '{reader,cell}'::text[] FROM claims.cells c
                 UNION SELECT a.grantee, '{reader,router}' FROM pg_class v, aclexplode(v.relacl) a
                        WHERE v.oid = 'claims.records'::regclass AND a.privilege_type = 'SELECT' AND a.grantee <> v.relowner
                 UNION SELECT a.grantee, '{monitor}' FROM pg_class v, aclexplode(v.relacl) a
                        WHERE v.oid = 'claims.leases'::regclass AND a.privilege_type = 'SELECT' AND a.grantee <> v.relowner
                 UNION SELECT a.grantee, '{worker}' FROM pg_class t, aclexplode(t.relacl) a
                        WHERE t.oid = 'claims.expiring_claims'::regclass AND a.privilege_type = 'SELECT' AND a.grantee <> t.relowner)
                AS k (role, audiences)
           JOIN pg_roles r ON r.oid = k.role";
}

/// Grants every role what its kind has in this version.
pub fn refresh(connection: &Connection) {
    connection.run(&LOCK, View::Statement, []);
    connection.run(&REFRESH, View::Statement, []);
}
