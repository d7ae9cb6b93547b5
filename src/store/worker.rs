//! Statements of the background worker.

use pgrx::pg_sys::Oid;
use uuid::Uuid;

use crate::pg::spi::{Connection, View};
use crate::pg::statement::{shared_statement, statement};
use crate::pg::uuid::from_pg_uuid;

shared_statement! {
    /// The owner of the extension. It is that of the schema: pg_upgrade changes the owner of the extension itself.
    OWNER() = "SELECT n.nspowner FROM pg_catalog.pg_namespace n WHERE n.nspname = 'claims'";
    ATTENDED() = "SELECT a.cell_id, a.service FROM claims.attended_cells a ORDER BY a.cell_id";
}

statement! {
    ATTEND(INT8OID, TEXTOID) =
        "INSERT INTO claims.attended_cells AS a (cell_id, service) VALUES ($1, $2)
         ON CONFLICT (cell_id) DO UPDATE SET service = excluded.service WHERE a.service <> excluded.service";
    DISMISS(INT8OID) = "DELETE FROM claims.attended_cells a WHERE a.cell_id = $1";
    /// Leases that cell $1 tracked between $2 and $3 milliseconds ago, at most $4, and the youngest ones that are not that old.
    LEFT(INT8OID, INT8OID, INT8OID, INT8OID) =
        "SELECT t.uuid, t.created_at <= clock_timestamp() - make_interval(secs => $3 / 1000.0)
           FROM claims.cells_outstanding_leases t
          WHERE t.cell_id = $1 AND t.created_at >= clock_timestamp() - make_interval(secs => $2 / 1000.0)
          LIMIT $4";
    SOURCE_TYPES() = "SELECT DISTINCT a.source_type FROM claims.claimed_attributes a ORDER BY 1";
}

/// The owner of the extension.
pub fn owner(connection: &Connection) -> Option<Oid> {
    connection.run(&OWNER, View::Latest, []).first(|row| row.must(1))
}

/// A cell that the worker attends to, and the foreign server that leads to its service.
pub struct Attended {
    pub cell_id: i64,
    pub service: String,
}

pub fn attended(connection: &Connection) -> Vec<Attended> {
    connection.run(&ATTENDED, View::Latest, []).map(|row| Attended { cell_id: row.must(1), service: row.must(2) })
}

/// From now on the worker attends to the cell; `None` ends that.
pub fn attend(connection: &Connection, cell_id: i64, service: Option<&str>) {
    match service {
        Some(service) => connection.run(&ATTEND, View::Statement, [cell_id.into(), service.into()]),
        None => connection.run(&DISMISS, View::Statement, [cell_id.into()]),
    };
}

/// Leases that a cell has tracked and not forgotten.
pub struct Left {
    /// Tracked long enough ago that the session that tracked them has had time to settle them.
    pub ripe: Vec<Uuid>,
    /// Whether there are others.
    pub has_unripe: bool,
}

/// In milliseconds: from `oldest` to `ripe` ago, at most `limit`.
pub fn left(connection: &Connection, cell_id: i64, oldest: i64, ripe: i64, limit: i64) -> Left {
    let rows = connection.run(&LEFT, View::Latest, [cell_id.into(), oldest.into(), ripe.into(), limit.into()]);
    let all = rows.map(|row| (from_pg_uuid(row.must(1)), row.must::<bool>(2)));
    let has_unripe = all.iter().any(|(_, is_ripe)| !is_ripe);
    Left { ripe: all.into_iter().filter(|(_, is_ripe)| *is_ripe).map(|(lease, _)| lease).collect(), has_unripe }
}

/// Names of the source types whose claims this database's tables call for.
pub fn source_types(connection: &Connection) -> Vec<String> {
    connection.run(&SOURCE_TYPES, View::Latest, []).map(|row| row.must(1))
}
