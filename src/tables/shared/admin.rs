//! Statements of administrators that work for local and distributed tables.

use claims_model::{Kind, Naming};
use pgrx::pg_sys::Oid;

use crate::error::ClaimsError;
use crate::tables::door::Tables;
use crate::tables::rows::cells::Leftovers;
use pg::spi::{Connection, View};
use pg::statement::shared_statement;

/// Returns the roles that were granted SELECT on the relation of their kind, with the audiences of that kind.
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
pub(in crate::tables) use granted;

shared_statement! {
    LOCK_TYPES() = "LOCK TABLE claims.type_names IN SHARE ROW EXCLUSIVE MODE";
    /// Serializes grants: concurrent GRANTs on one function fail with \"tuple concurrently updated\".
    LOCK_GRANTS() = "LOCK TABLE claims.audiences IN SHARE ROW EXCLUSIVE MODE";
    /// Adds a name of type $2 of kind $1, as its first one if $4.
    ADD_NAME(TEXTOID, INT4OID, TEXTOID, BOOLOID) =
        "INSERT INTO claims.type_names (kind, id, name, first) VALUES ($1, $2, $3, $4) ON CONFLICT (kind, name) DO NOTHING";
    /// Deletes the remaining names of a type that somebody deleted by hand.
    DROP_NAMES(TEXTOID, INT4OID, TEXTOID) = "DELETE FROM claims.type_names WHERE kind = $1 AND (id = $2 OR name = $3)";
    /// Adds the first name of a type that was inserted by hand or came from a dump of 1.0.0.
    ADD_FIRST_NAME(TEXTOID, INT4OID, TEXTOID) =
        "INSERT INTO claims.type_names (kind, id, name, first)
         SELECT $1, $2, $3, true WHERE NOT EXISTS (SELECT FROM claims.type_names n WHERE n.kind = $1 AND n.id = $2 AND n.first)
         ON CONFLICT (kind, name) DO NOTHING";
    ADD_BUCKET_TYPE(INT4OID, TEXTOID, TEXTOID, TEXTOID) =
        "INSERT INTO claims.bucket_types (id, name, profile, confusables) VALUES ($1, $2, $3, $4)";
    /// Renames a type. A trigger changes the name that is shown.
    RENAME(TEXTOID, INT4OID, TEXTOID) =
        "INSERT INTO claims.type_renames AS r (kind, id, name) VALUES ($1, $2, $3)
         ON CONFLICT (kind, id) DO UPDATE SET name = excluded.name";
    ROLE_CALLED(TEXTOID) = "SELECT r.oid FROM pg_roles r WHERE r.rolname = $1";
    ROLE_NAME(OIDOID) = "SELECT r.rolname::text FROM pg_roles r WHERE r.oid = $1";
    /// Returns whether cell $1 has claims, leases, and unfinished transfers.
    LEFTOVERS(INT8OID) =
        "SELECT EXISTS (SELECT 1 FROM claims.claims c WHERE c.creator_id = $1),
                EXISTS (SELECT 1 FROM claims.claim_leases l WHERE l.creator_id = $1),
                EXISTS (SELECT 1 FROM claims.cell_transfers t WHERE $1 IN (t.from_cell, t.to_cell) AND t.ended_at IS NULL)";
    /// Locks a cell, so that nobody can prepare a transfer from or to it.
    LOCK_CELL(INT8OID) = "SELECT 1 FROM claims.cells c WHERE c.cell_id = $1 FOR UPDATE";
    COUNT_CLAIMS(INT8OID) = "SELECT count(*) FROM claims.claims c WHERE c.creator_id = $1 AND c.status = 1";
    REMOVE_CELL(INT8OID) =
        "WITH mode AS (DELETE FROM claims.mode_settings m WHERE m.cell_id = $1),
              limits AS (DELETE FROM claims.limit_settings l WHERE l.cell_id = $1),
              epoch AS (DELETE FROM claims.cell_epochs e WHERE e.cell_id = $1)
         DELETE FROM claims.cells c WHERE c.cell_id = $1";
    CAN_READ(TEXTOID, OIDOID) =
        "SELECT EXISTS (SELECT FROM pg_class c, aclexplode(c.relacl) a
                         WHERE c.oid = $1::regclass AND a.grantee = $2 AND a.privilege_type = 'SELECT')";
    /// Returns those relations of $1 that role $2 does not own.
    FOREIGN(TEXTARRAYOID, OIDOID) =
        "SELECT c.oid::regclass::text FROM unnest($1) AS name JOIN pg_class c ON c.oid = name::regclass WHERE c.relowner <> $2";
    EXTENSION_VERSION() = "SELECT e.extversion FROM pg_extension e WHERE e.extname = 'claims'";
    QUOTED(TEXTOID) = "SELECT quote_ident($1)";
}

impl dyn Tables + '_ {
    /// Locks types against other administrators until this transaction ends.
    pub fn lock_types(&self, connection: &Connection) -> Result<(), ClaimsError> {
        self.require_own_nodes(connection)?;
        connection.run(&LOCK_TYPES, View::Statement, []);
        Ok(())
    }

    /// Locks grants and cells against other administrators until this transaction ends.
    pub fn lock_grants(&self, connection: &Connection) -> Result<(), ClaimsError> {
        self.require_own_nodes(connection)?;
        connection.run(&LOCK_GRANTS, View::Statement, []);
        Ok(())
    }

    /// Grants SELECT on relations to a role.
    pub fn grant_select(&self, connection: &Connection, relations: &[&str], role_name: &str) {
        let role_name = quoted(connection, role_name);
        self.grant(connection, &format!("GRANT SELECT ON {} TO {role_name}", relations.join(", ")));
    }

    /// Revokes SELECT on relations from a role. An owner keeps the privilege on its own relations.
    pub fn revoke_select(&self, connection: &Connection, relations: &[&str], role: Oid, role_name: &str) {
        let relations: Vec<_> = relations.iter().map(|relation| (*relation).to_owned()).collect();
        let foreign =
            connection.run(&FOREIGN, View::Latest, [relations.into(), role.into()]).map(|row| row.must::<String>(1));
        for relation in foreign {
            self.grant(connection, &format!("REVOKE SELECT ON {relation} FROM {}", quoted(connection, role_name)));
        }
    }
}

/// Adds a type. Its id and its name must be free.
pub fn add_type(connection: &Connection, kind: Kind, id: i32, name: &str, naming: Naming) {
    connection.run(&DROP_NAMES, View::Statement, [kind.name().into(), id.into(), name.into()]);
    connection.run(&ADD_NAME, View::Statement, [kind.name().into(), id.into(), name.into(), true.into()]);
    if kind == Kind::Bucket {
        let values = [id.into(), name.into(), naming.profile.name().into(), naming.confusables.name().into()];
        connection.run(&ADD_BUCKET_TYPE, View::Statement, values);
        return;
    }
    let insert = format!("INSERT INTO claims.{}_types (id, name) VALUES ($1, $2)", kind.name());
    connection.run_text(&insert, [id.into(), name.into()]);
}

/// Renames a type. The previous name stays as another name of the type.
pub fn rename_type(connection: &Connection, kind: Kind, id: i32, shown: &str, name: &str) {
    let values = |name: &str| [kind.name().into(), id.into(), name.into()];
    connection.run(&ADD_FIRST_NAME, View::Statement, values(shown));
    for name in [shown, name] {
        connection.run(&ADD_NAME, View::Statement, values(name).into_iter().chain([false.into()]));
    }
    connection.run(&RENAME, View::Statement, values(name));
}

pub fn role_called(connection: &Connection, name: &str) -> Option<Oid> {
    connection.run(&ROLE_CALLED, View::Latest, [name.into()]).first(|row| row.must(1))
}

pub fn role_name(connection: &Connection, role: Oid) -> Option<String> {
    connection.run(&ROLE_NAME, View::Latest, [role.into()]).first(|row| row.must(1))
}

/// Locks a cell's row, and then returns whether the cell has claims, outstanding leases, and unfinished transfers. `None` if it
/// has none.
pub fn leftovers(connection: &Connection, cell_id: i64) -> Option<Leftovers> {
    connection.run(&LOCK_CELL, View::Statement, [cell_id.into()]);
    let rows = connection.run(&LEFTOVERS, View::Latest, [cell_id.into()]);
    let left = rows.first(|row| Leftovers { claims: row.must(1), leases: row.must(2), transfers: row.must(3) });
    left.filter(|left| left.claims || left.leases || left.transfers)
}

/// Returns the number of a cell's claims that no lease holds.
pub fn count_claims(connection: &Connection, cell_id: i64) -> i64 {
    connection.run(&COUNT_CLAIMS, View::Caller, [cell_id.into()]).first(|row| row.must(1)).unwrap_or(0)
}

pub fn remove_cell(connection: &Connection, cell_id: i64) {
    connection.run(&REMOVE_CELL, View::Statement, [cell_id.into()]);
}

/// Returns whether a role itself was granted SELECT on a relation, not through another role.
pub fn can_read(connection: &Connection, relation: &str, role: Oid) -> bool {
    connection.run(&CAN_READ, View::Latest, [relation.into(), role.into()]).first(|row| row.must(1)).unwrap_or(false)
}

/// Returns the version of the extension that is installed in this database.
pub fn extension_version(connection: &Connection) -> Option<String> {
    connection.run(&EXTENSION_VERSION, View::Caller, []).first(|row| row.must(1))
}

fn quoted(connection: &Connection, name: &str) -> String {
    connection.run(&QUOTED, View::Latest, [name.into()]).first(|row| row.must(1)).unwrap_or_default()
}
