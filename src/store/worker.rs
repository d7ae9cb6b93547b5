//! Statements of the background worker.

use pgrx::pg_sys::Oid;
use uuid::Uuid;

use crate::pg::background;
use crate::pg::spi::{Connection, View};
use crate::pg::statement::{shared_statement, statement};
use crate::pg::uuid::from_pg_uuid;

shared_statement! {
    /// Returns the owner of the schema. pg_upgrade changes the owner of the extension, but not that of the schema.
    OWNER() = "SELECT n.nspowner FROM pg_catalog.pg_namespace n WHERE n.nspname = 'claims'";
    /// Returns the cells that were attended in database $1, and those that have an epoch. A cell without either is being restored.
    ATTENDED(TEXTOID) =
        "SELECT a.cell_id, a.service FROM claims.attended_cells a
          WHERE a.attended_in = $1 OR EXISTS (SELECT FROM claims.own_epochs e WHERE e.cell_id = a.cell_id)
          ORDER BY a.cell_id";
}

statement! {
    ATTEND(INT8OID, TEXTOID, TEXTOID) =
        "INSERT INTO claims.attended_cells AS a (cell_id, service, attended_in) VALUES ($1, $2, $3)
         ON CONFLICT (cell_id) DO UPDATE SET service = excluded.service, attended_in = excluded.attended_in
          WHERE (a.service, a.attended_in) IS DISTINCT FROM (excluded.service, excluded.attended_in)";
    DISMISS(INT8OID) = "DELETE FROM claims.attended_cells a WHERE a.cell_id = $1";
    /// Returns leases that cell $1 tracked up to $2 milliseconds ago, at most $4, each with whether it was tracked at least $3
    /// milliseconds ago.
    REMAINING(INT8OID, INT8OID, INT8OID, INT8OID) =
        "SELECT t.uuid, t.created_at <= clock_timestamp() - make_interval(secs => $3 / 1000.0)
           FROM claims.cells_outstanding_leases t
          WHERE t.cell_id = $1 AND t.created_at >= clock_timestamp() - make_interval(secs => $2 / 1000.0)
          LIMIT $4";
    SOURCE_TYPES() = "SELECT DISTINCT a.source_type FROM claims.claimed_attributes a ORDER BY 1";
}

/// Returns the owner of the extension's objects.
pub fn owner(connection: &Connection) -> Option<Oid> {
    connection.run(&OWNER, View::Latest, []).first(|row| row.must(1))
}

/// A cell that the worker attends to, and the foreign server of its service.
#[derive(Clone)]
pub struct Attended {
    pub cell_id: i64,
    pub service: String,
}

/// Returns the cells that the worker attends to.
pub fn attended(connection: &Connection) -> Vec<Attended> {
    let here = background::database_identity();
    connection
        .run(&ATTENDED, View::Latest, [here.into()])
        .map(|row| Attended { cell_id: row.must(1), service: row.must(2) })
}

/// Makes the worker attend to a cell; with `None`, makes it stop.
pub fn attend(connection: &Connection, cell_id: i64, service: Option<&str>) {
    match service {
        Some(service) => {
            let here = background::database_identity();
            connection.run(&ATTEND, View::Statement, [cell_id.into(), service.into(), here.into()])
        }
        None => connection.run(&DISMISS, View::Statement, [cell_id.into()]),
    };
}

/// The tracked leases that are not forgotten yet.
pub struct RemainingLeases {
    /// Leases tracked long enough ago that their sessions have had time to settle them.
    pub ripe: Vec<Uuid>,
    /// Whether there are younger ones.
    pub has_unripe: bool,
}

/// Returns the leases that were tracked up to `oldest_ms` milliseconds ago, at most `limit`. Those of at least `ripe_ms`
/// milliseconds are ripe.
pub fn remaining(connection: &Connection, cell_id: i64, oldest_ms: i64, ripe_ms: i64, limit: i64) -> RemainingLeases {
    let rows =
        connection.run(&REMAINING, View::Latest, [cell_id.into(), oldest_ms.into(), ripe_ms.into(), limit.into()]);
    let all = rows.map(|row| (from_pg_uuid(row.must(1)), row.must::<bool>(2)));
    let has_unripe = all.iter().any(|(_, is_ripe)| !is_ripe);
    RemainingLeases {
        ripe: all.into_iter().filter(|(_, is_ripe)| *is_ripe).map(|(lease, _)| lease).collect(),
        has_unripe,
    }
}

/// Returns the source types whose claims this database's tables declare.
pub fn source_types(connection: &Connection) -> Vec<String> {
    connection.run(&SOURCE_TYPES, View::Latest, []).map(|row| row.must(1))
}
