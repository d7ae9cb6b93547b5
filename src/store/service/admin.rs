//! Statements by which administrators change types, cells and grants.

use claims_model::{Bucket, Kind, Naming};
use pgrx::pg_sys::Oid;

use super::changes::{actor, tell_all};
use super::distribution::{here_only, on_other_nodes};
use crate::distribution;
use crate::error::or_raise;
use crate::pg::jsonb::Jsonb;
use crate::pg::roles;
use crate::pg::spi::{Connection, Value, View};
use crate::pg::statement::{shared_statement, statement};

/// Deletes up to $2 claims of cell $1 that no lease holds, passing over those that another session has locked.
macro_rules! release {
    () => {
        concat!(
            "WITH free AS MATERIALIZED (
                 SELECT c.bucket_value, c.bucket_type FROM claims.claims c WHERE c.creator_id = $1 AND c.status = 1
                  LIMIT $2 FOR UPDATE SKIP LOCKED)
             DELETE FROM claims.claims c USING free f WHERE ",
            is_row!("c.bucket_value", "c.bucket_type", "f.bucket_value", "f.bucket_type")
        )
    };
}

shared_statement! {
    LOCK_TYPES() = "LOCK TABLE claims.type_names IN SHARE ROW EXCLUSIVE MODE";
    /// Two that grant on one function at the same time get \"tuple concurrently updated\".
    LOCK_GRANTS() = "LOCK TABLE claims.audiences IN SHARE ROW EXCLUSIVE MODE";
    /// A name of type $2 of kind $1, its first one if $4.
    ADD_NAME(TEXTOID, INT4OID, TEXTOID, BOOLOID) =
        "INSERT INTO claims.type_names (kind, id, name, first) VALUES ($1, $2, $3, $4) ON CONFLICT (kind, name) DO NOTHING";
    /// What was left of a type that somebody deleted by hand.
    DROP_NAMES(TEXTOID, INT4OID, TEXTOID) = "DELETE FROM claims.type_names WHERE kind = $1 AND (id = $2 OR name = $3)";
    /// A type that was written into its table by hand, or came from a dump of 1.0.0, has no first name yet.
    ADD_FIRST_NAME(TEXTOID, INT4OID, TEXTOID) =
        "INSERT INTO claims.type_names (kind, id, name, first)
         SELECT $1, $2, $3, true WHERE NOT EXISTS (SELECT FROM claims.type_names n WHERE n.kind = $1 AND n.id = $2 AND n.first)
         ON CONFLICT (kind, name) DO NOTHING";
    ADD_BUCKET_TYPE(INT4OID, TEXTOID, TEXTOID, TEXTOID) =
        "INSERT INTO claims.bucket_types (id, name, profile, confusables) VALUES ($1, $2, $3, $4)";
    /// A trigger shows the new name.
    RENAME(TEXTOID, INT4OID, TEXTOID) =
        "INSERT INTO claims.type_renames AS r (kind, id, name) VALUES ($1, $2, $3)
         ON CONFLICT (kind, id) DO UPDATE SET name = excluded.name";
    ROLE_CALLED(TEXTOID) = "SELECT r.oid FROM pg_roles r WHERE r.rolname = $1";
    ROLE_NAME(OIDOID) = "SELECT r.rolname::text FROM pg_roles r WHERE r.oid = $1";
    ROLE_OF_CELL(INT8OID) = "SELECT c.role::oid FROM claims.cells c WHERE c.cell_id = $1";
    /// What is NULL stays as it was.
    REGISTER(INT8OID, OIDOID, TEXTOID, TEXTOID, JSONBOID) =
        "INSERT INTO claims.cells AS c (cell_id, role, name, address, attributes) VALUES ($1, $2::regrole, $3, $4, $5)
         ON CONFLICT (cell_id) DO UPDATE
         SET role = excluded.role, name = coalesce(excluded.name, c.name), address = coalesce(excluded.address, c.address),
             attributes = coalesce(excluded.attributes, c.attributes)";
    /// The same where the tables are spread: roles have other numbers on other nodes.
    ROLE_NAME_OF_CELL(INT8OID) = "SELECT c.role_name::text FROM claims.cells c WHERE c.cell_id = $1";
    REGISTER_BY_NAME(INT8OID, TEXTOID, TEXTOID, TEXTOID, JSONBOID) =
        "INSERT INTO claims.cells AS c (cell_id, role, role_name, name, address, attributes)
         VALUES ($1, quote_ident($2)::regrole, $2::name, $3, $4, $5)
         ON CONFLICT (cell_id) DO UPDATE
         SET role = excluded.role, role_name = excluded.role_name, name = coalesce(excluded.name, c.name),
             address = coalesce(excluded.address, c.address), attributes = coalesce(excluded.attributes, c.attributes)";
    HAS_CELLS_BY_NAME(TEXTOID) = "SELECT count(*) > 0 FROM claims.cells c WHERE c.role_name = $1::name";
    /// Whether cell $1 has claims, leases, and transfers that have not ended.
    LEFTOVERS(INT8OID) =
        "SELECT EXISTS (SELECT 1 FROM claims.claims c WHERE c.creator_id = $1),
                EXISTS (SELECT 1 FROM claims.claim_leases l WHERE l.creator_id = $1),
                EXISTS (SELECT 1 FROM claims.cell_transfers t WHERE $1 IN (t.from_cell, t.to_cell) AND t.ended_at IS NULL)";
    /// From here on nobody prepares a transfer from or to the cell.
    LOCK_CELL(INT8OID) = "SELECT 1 FROM claims.cells c WHERE c.cell_id = $1 FOR UPDATE";
    COUNT_CLAIMS(INT8OID) = "SELECT count(*) FROM claims.claims c WHERE c.creator_id = $1 AND c.status = 1";
    REMOVE_CELL(INT8OID) =
        "WITH mode AS (DELETE FROM claims.mode_settings m WHERE m.cell_id = $1),
              limits AS (DELETE FROM claims.limit_settings l WHERE l.cell_id = $1),
              epoch AS (DELETE FROM claims.cell_epochs e WHERE e.cell_id = $1)
         DELETE FROM claims.cells c WHERE c.cell_id = $1";
    HAS_CELLS(OIDOID) = "SELECT EXISTS (SELECT FROM claims.cells c WHERE c.role = $1::regrole)";
    CHANGE_GRANTS(TEXTOID, TEXTARRAYOID, BOOLOID) = "SELECT claims.change_grants($1::name, $2, $3)";
    CALL_OF_CHANGE_GRANTS(TEXTOID, TEXTARRAYOID, BOOLOID) =
        "SELECT format('PERFORM claims.change_grants(%L, %L::text[], %L)', $1, $2, $3)";
    CAN_READ(TEXTOID, OIDOID) =
        "SELECT EXISTS (SELECT FROM pg_class c, aclexplode(c.relacl) a
                         WHERE c.oid = $1::regclass AND a.grantee = $2 AND a.privilege_type = 'SELECT')";
    /// Relations of $1 that are not role $2's own.
    FOREIGN(TEXTARRAYOID, OIDOID) =
        "SELECT c.oid::regclass::text FROM unnest($1) AS name JOIN pg_class c ON c.oid = name::regclass WHERE c.relowner <> $2";
    EXTENSION_VERSION() = "SELECT e.extversion FROM pg_extension e WHERE e.extname = 'claims'";
    QUOTED(TEXTOID) = "SELECT quote_ident($1)";
}

statement! {
    RELEASE(INT8OID, INT8OID) = release!();
    /// The same, and which claims they were.
    RELEASE_AND_TELL(INT8OID, INT8OID) = concat!(release!(), " RETURNING c.bucket_type, c.bucket_value");
    /// The same, and writes down, as role $3, that they are free.
    RELEASE_INTO_FEED(INT8OID, INT8OID, TEXTOID) = concat!(
        "WITH gone AS (", release!(), " RETURNING c.bucket_type, c.bucket_value),
              told AS (", tell_all!("gone", "'destroy'", "$1", "NULL", "NULL", "$3"), ")
         SELECT count(*) FROM gone");
}

/// From here on nobody else changes types before this transaction ends.
pub fn lock_types(connection: &Connection) {
    connection.run(&LOCK_TYPES, View::Statement, []);
}

/// Id and name must be free.
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

/// The shown name stays as another name of the type.
pub fn rename_type(connection: &Connection, kind: Kind, id: i32, shown: &str, name: &str) {
    let values = |name: &str| [kind.name().into(), id.into(), name.into()];
    connection.run(&ADD_FIRST_NAME, View::Statement, values(shown));
    for name in [shown, name] {
        connection.run(&ADD_NAME, View::Statement, values(name).into_iter().chain([false.into()]));
    }
    connection.run(&RENAME, View::Statement, values(name));
}

/// From here on nobody else changes grants or cells before this transaction ends.
pub fn lock_grants(connection: &Connection) {
    connection.run(&LOCK_GRANTS, View::Statement, []);
}

pub fn role_called(connection: &Connection, name: &str) -> Option<Oid> {
    connection.run(&ROLE_CALLED, View::Latest, [name.into()]).first(|row| row.must(1))
}

pub fn role_name(connection: &Connection, role: Oid) -> Option<String> {
    connection.run(&ROLE_NAME, View::Latest, [role.into()]).first(|row| row.must(1))
}

/// A cell as it is to be; what is `None` stays.
pub struct Registration {
    pub cell_id: i64,
    pub role: Oid,
    pub name: Option<String>,
    pub address: Option<String>,
    pub attributes: Option<Jsonb>,
}

/// Registers a cell, or changes it; returns the role that it had.
pub fn register(connection: &Connection, cell: &Registration) -> Option<Oid> {
    let before = role_of_cell(connection, cell.cell_id);
    let Registration { cell_id, role, name, address, attributes } = cell;
    let (statement, role) = match distribution::is_spread() {
        true => (&REGISTER_BY_NAME, roles::name(*role).into()),
        false => (&REGISTER, (*role).into()),
    };
    let values = [(*cell_id).into(), role, name.clone().into(), address.clone().into(), attributes.clone().into()];
    connection.run(statement, View::Statement, values);
    before
}

pub fn role_of_cell(connection: &Connection, cell_id: i64) -> Option<Oid> {
    if distribution::is_spread() {
        let name = connection.run(&ROLE_NAME_OF_CELL, View::Latest, [cell_id.into()]).first(|row| row.get::<String>(1));
        return name.flatten().and_then(|name| roles::called(&name));
    }
    connection.run(&ROLE_OF_CELL, View::Latest, [cell_id.into()]).first(|row| row.must(1))
}

/// What keeps a cell from being removed.
#[derive(Debug, Clone, Copy)]
pub struct Leftovers {
    pub claims: bool,
    pub leases: bool,
    pub transfers: bool,
}

/// Whether a cell has claims, outstanding leases, and transfers that have not ended. Locks its row before it looks.
pub fn leftovers(connection: &Connection, cell_id: i64) -> Option<Leftovers> {
    connection.run(&LOCK_CELL, View::Statement, [cell_id.into()]);
    let rows = connection.run(&LEFTOVERS, View::Latest, [cell_id.into()]);
    let left = rows.first(|row| Leftovers { claims: row.must(1), leases: row.must(2), transfers: row.must(3) });
    left.filter(|left| left.claims || left.leases || left.transfers)
}

/// How many claims of a cell no lease holds.
pub fn count_claims(connection: &Connection, cell_id: i64) -> i64 {
    connection.run(&COUNT_CLAIMS, View::Caller, [cell_id.into()]).first(|row| row.must(1)).unwrap_or(0)
}

/// Deletes claims of a cell that no lease holds, up to a number; returns how many. Waits for nobody.
pub fn release_claims(connection: &Connection, cell_id: i64, limit: i64) -> i64 {
    connection.run(&RELEASE, View::Statement, [cell_id.into(), limit.into()]).count() as i64
}

/// The same, and returns which they were.
pub fn release_and_tell(connection: &Connection, cell_id: i64, limit: i64) -> Vec<Bucket<'static>> {
    let bucket = |value: String, bucket_type| Bucket { bucket_type, value: value.into() };
    connection
        .run(&RELEASE_AND_TELL, View::Statement, [cell_id.into(), limit.into()])
        .map(|row| bucket(row.must(2), row.must(1)))
}

/// The same, written down in the change feed.
pub fn release_into_feed(connection: &Connection, cell_id: i64, limit: i64) -> i64 {
    let values = [cell_id.into(), limit.into(), actor().into()];
    connection.run(&RELEASE_INTO_FEED, View::Statement, values).first(|row| row.must(1)).unwrap_or(0)
}

pub fn remove_cell(connection: &Connection, cell_id: i64) {
    connection.run(&REMOVE_CELL, View::Statement, [cell_id.into()]);
}

pub fn has_cells(connection: &Connection, role: Oid) -> bool {
    let (statement, role): (_, Value) = match distribution::is_spread() {
        true => (&HAS_CELLS_BY_NAME, roles::name(role).into()),
        false => (&HAS_CELLS, role.into()),
    };
    connection.run(statement, View::Latest, [role]).first(|row| row.must(1)).unwrap_or(false)
}

/// Grants the functions of some audiences to a role, or revokes them.
pub fn change_grants(connection: &Connection, role_name: &str, audiences: &[&str], granting: bool) {
    let audiences: Vec<_> = audiences.iter().map(|audience| (*audience).to_owned()).collect();
    let change = || {
        let values = [role_name.into(), audiences.clone().into(), granting.into()];
        connection.run(&CHANGE_GRANTS, View::Statement, values);
    };
    if !distribution::is_spread() {
        return change();
    }
    here_only(change);
    let values = [role_name.into(), audiences.clone().into(), granting.into()];
    let call = connection.run(&CALL_OF_CHANGE_GRANTS, View::Latest, values).first(|row| row.must::<String>(1));
    or_raise(on_other_nodes(connection, &call.unwrap_or_default()));
}

/// Runs a grant of relations, on all nodes.
fn grant(connection: &Connection, grant: &str) {
    if !distribution::is_spread() {
        connection.run_text(grant, []);
        return;
    }
    here_only(|| {
        connection.run_text(grant, []);
    });
    or_raise(on_other_nodes(connection, grant));
}

/// Lets a role read relations.
pub fn let_read(connection: &Connection, relations: &[&str], role_name: &str) {
    grant(connection, &format!("GRANT SELECT ON {} TO {}", relations.join(", "), quoted(connection, role_name)));
}

/// The opposite. An owner keeps what is its own.
pub fn let_read_no_more(connection: &Connection, relations: &[&str], role: Oid, role_name: &str) {
    let relations: Vec<_> = relations.iter().map(|relation| (*relation).to_owned()).collect();
    let foreign =
        connection.run(&FOREIGN, View::Latest, [relations.into(), role.into()]).map(|row| row.must::<String>(1));
    for relation in foreign {
        grant(connection, &format!("REVOKE SELECT ON {relation} FROM {}", quoted(connection, role_name)));
    }
}

/// Whether a role was let read a relation, by itself and not through another one.
pub fn can_read(connection: &Connection, relation: &str, role: Oid) -> bool {
    connection.run(&CAN_READ, View::Latest, [relation.into(), role.into()]).first(|row| row.must(1)).unwrap_or(false)
}

fn quoted(connection: &Connection, name: &str) -> String {
    connection.run(&QUOTED, View::Latest, [name.into()]).first(|row| row.must(1)).unwrap_or_default()
}

/// The version whose objects are installed in this database.
pub fn extension_version(connection: &Connection) -> Option<String> {
    connection.run(&EXTENSION_VERSION, View::Caller, []).first(|row| row.must(1))
}
