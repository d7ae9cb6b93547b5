//! Statements of administrators that work for local and distributed tables.

use claims_model::{Kind, Naming};
use pgrx::pg_sys::Oid;

use super::tables::{Leftovers, RoleTables};
use crate::kernel::error::ClaimsError;
use pg::query::{query, record};
use pg::spi::Connection;

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

record! {
    /// A role, and the audiences of functions that it was granted as a reader, a monitor or a worker.
    pub struct Grantee {
        pub rolname: String,
        pub audiences: Vec<String>,
    }
}

query! {
    /// Returns the roles of readers, workers and monitors, each recognized by the view or table that only its kind may read.
    pub fn readers_and_others() -> Vec<Grantee> = [Latest Anywhere] concat!(
        "SELECT r.rolname::text, k.audiences FROM (", granted!(), ") AS k (role, audiences) JOIN pg_roles r ON r.oid = k.role ORDER BY 1");
    fn lock_type_names() = [Statement Anywhere] "LOCK TABLE claims.type_names IN SHARE ROW EXCLUSIVE MODE";
    /// Serializes grants: concurrent GRANTs on one function fail with \"tuple concurrently updated\".
    fn lock_audiences() = [Statement Anywhere] "LOCK TABLE claims.audiences IN SHARE ROW EXCLUSIVE MODE";
    fn add_name(kind: &str, id: i32, name: &str, first: bool) = [Statement Anywhere]
        "INSERT INTO claims.type_names (kind, id, name, first) VALUES (:kind, :id, :name, :first) ON CONFLICT (kind, name) DO NOTHING";
    /// Deletes the remaining names of a type that somebody deleted by hand.
    fn drop_names(kind: &str, id: i32, name: &str) = [Statement Anywhere]
        "DELETE FROM claims.type_names WHERE kind = :kind AND (id = :id OR name = :name)";
    /// Adds the first name of a type that was inserted by hand or came from a dump of 1.0.0.
    fn add_first_name(kind: &str, id: i32, name: &str) = [Statement Anywhere]
        "INSERT INTO claims.type_names (kind, id, name, first)
         SELECT :kind, :id, :name, true WHERE NOT EXISTS (SELECT FROM claims.type_names n WHERE n.kind = :kind AND n.id = :id AND n.first)
         ON CONFLICT (kind, name) DO NOTHING";
    fn add_bucket_type(id: i32, name: &str, profile: &str, confusables: &str) = [Statement Anywhere]
        "INSERT INTO claims.bucket_types (id, name, profile, confusables) VALUES (:id, :name, :profile, :confusables)";
    fn add_subject_type(id: i32, name: &str) = [Statement Anywhere] "INSERT INTO claims.subject_types (id, name) VALUES (:id, :name)";
    fn add_source_type(id: i32, name: &str) = [Statement Anywhere] "INSERT INTO claims.source_types (id, name) VALUES (:id, :name)";
    /// Renames a type. A trigger changes the name that is shown.
    fn rename(kind: &str, id: i32, name: &str) = [Statement Anywhere]
        "INSERT INTO claims.type_renames AS r (kind, id, name) VALUES (:kind, :id, :name)
         ON CONFLICT (kind, id) DO UPDATE SET name = excluded.name";
    pub fn role_called(name: &str) -> Option<Oid> = [Latest Anywhere] "SELECT r.oid FROM pg_roles r WHERE r.rolname = :name";
    pub fn role_name(role: Oid) -> Option<String> = [Latest Anywhere] "SELECT r.rolname::text FROM pg_roles r WHERE r.oid = :role";
    /// Returns whether a cell has claims, leases, and unfinished transfers.
    fn left(cell_id: i64) -> Option<Leftovers> = [Latest Anywhere]
        "SELECT EXISTS (SELECT 1 FROM claims.claims c WHERE c.creator_id = :cell_id) AS claims,
                EXISTS (SELECT 1 FROM claims.claim_leases l WHERE l.creator_id = :cell_id) AS leases,
                EXISTS (SELECT 1 FROM claims.cell_transfers t WHERE :cell_id IN (t.from_cell, t.to_cell) AND t.ended_at IS NULL) AS transfers";
    /// Locks a cell, so that nobody can prepare a transfer from or to it.
    fn lock_cell(cell_id: i64) = [Statement Anywhere] "SELECT 1 FROM claims.cells c WHERE c.cell_id = :cell_id FOR UPDATE";
    pub fn remove(cell_id: i64) = [Statement Anywhere]
        "WITH mode AS (DELETE FROM claims.mode_settings m WHERE m.cell_id = :cell_id),
              limits AS (DELETE FROM claims.limit_settings l WHERE l.cell_id = :cell_id),
              epoch AS (DELETE FROM claims.cell_epochs e WHERE e.cell_id = :cell_id)
         DELETE FROM claims.cells c WHERE c.cell_id = :cell_id";
    /// Returns whether a role itself was granted SELECT on a relation, not through another role.
    pub fn can_read(relation: &str, role: Oid) -> bool = [Latest Anywhere]
        "SELECT EXISTS (SELECT FROM pg_class c, aclexplode(c.relacl) a
                         WHERE c.oid = :relation::regclass AND a.grantee = :role AND a.privilege_type = 'SELECT')";
    /// Returns those of the relations that a role does not own.
    fn not_owned(relations: &[&str], role: Oid) -> Vec<String> = [Latest Anywhere]
        "SELECT c.oid::regclass::text FROM unnest(:relations) AS name JOIN pg_class c ON c.oid = name::regclass WHERE c.relowner <> :role";
    /// Returns the version of the extension that is installed in this database.
    pub fn extension_version() -> Option<String> = [Caller Anywhere]
        "SELECT e.extversion FROM pg_extension e WHERE e.extname = 'claims'";
    fn quoted(name: &str) -> Option<String> = [Latest Anywhere] "SELECT quote_ident(:name)";
}

impl dyn RoleTables + '_ {
    /// Locks types against other administrators until this transaction ends.
    pub fn lock_types(&self, connection: &Connection) -> Result<(), ClaimsError> {
        self.require_own_nodes(connection)?;
        lock_type_names(connection);
        Ok(())
    }

    /// Locks grants and cells against other administrators until this transaction ends.
    pub fn lock_grants(&self, connection: &Connection) -> Result<(), ClaimsError> {
        self.require_own_nodes(connection)?;
        lock_audiences(connection);
        Ok(())
    }

    /// Grants SELECT on relations to a role.
    pub fn grant_select(&self, connection: &Connection, relations: &[&str], role_name: &str) {
        let role_name = quoted(connection, role_name).unwrap_or_default();
        self.grant(connection, &format!("GRANT SELECT ON {} TO {role_name}", relations.join(", ")));
    }

    /// Revokes SELECT on relations from a role. An owner keeps the privilege on its own relations.
    pub fn revoke_select(&self, connection: &Connection, relations: &[&str], role: Oid, role_name: &str) {
        let role_name = quoted(connection, role_name).unwrap_or_default();
        for relation in not_owned(connection, relations, role) {
            self.grant(connection, &format!("REVOKE SELECT ON {relation} FROM {role_name}"));
        }
    }
}

/// Adds a type. Its id and its name must be free.
pub fn add_type(connection: &Connection, kind: Kind, id: i32, name: &str, naming: Naming) {
    drop_names(connection, kind.name(), id, name);
    add_name(connection, kind.name(), id, name, true);
    match kind {
        Kind::Bucket => add_bucket_type(connection, id, name, naming.profile.name(), naming.confusables.name()),
        Kind::Subject => add_subject_type(connection, id, name),
        Kind::Source => add_source_type(connection, id, name),
    }
}

/// Renames a type. The previous name stays as another name of the type.
pub fn rename_type(connection: &Connection, kind: Kind, id: i32, shown: &str, name: &str) {
    add_first_name(connection, kind.name(), id, shown);
    for name in [shown, name] {
        add_name(connection, kind.name(), id, name, false);
    }
    rename(connection, kind.name(), id, name);
}

/// Locks a cell's row, and then returns whether the cell has claims, outstanding leases, and unfinished transfers. `None` if it
/// has none.
pub fn leftovers(connection: &Connection, cell_id: i64) -> Option<Leftovers> {
    lock_cell(connection, cell_id);
    left(connection, cell_id).filter(|left| left.claims || left.leases || left.transfers)
}
