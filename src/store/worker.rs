//! Statements of the background worker.

use pgrx::pg_sys::Oid;
use uuid::Uuid;

use crate::store::cell::tracked::at_service;
use pg::background;
use pg::spi::{Connection, View};
use pg::statement::{shared_statement, statement};
use pg::uuid::from_pg_uuid;

shared_statement! {
    /// Returns the owner of the schema. pg_upgrade changes the owner of the extension, but not that of the schema.
    OWNER() = "SELECT n.nspowner FROM pg_catalog.pg_namespace n WHERE n.nspname = 'claims'";
    /// Returns the cells that were attended in database $1, and those that have an epoch, each with its services and their foreign servers.
    /// A cell without either is being restored.
    ATTENDED(TEXTOID) =
        "SELECT a.cell_id, a.service, a.by_type,
                (SELECT s.oid FROM pg_catalog.pg_foreign_server s WHERE s.srvname OPERATOR(pg_catalog.=) a.service::pg_catalog.name)
           FROM claims.attended_cells a
          WHERE a.attended_in = $1 OR EXISTS (SELECT FROM claims.own_epochs e WHERE e.cell_id = a.cell_id)
          ORDER BY a.cell_id, a.by_type, a.service";
    /// Returns the sessions of any database that have done nothing for $1 seconds in a transaction with an id. Reads only catalogs of PostgreSQL.
    IDLE_WITH_IDS(INT8OID) =
        "SELECT a.pid, a.usename::pg_catalog.text FROM pg_catalog.pg_stat_activity a
          WHERE a.backend_xid IS NOT NULL AND a.backend_type OPERATOR(pg_catalog.=) 'client backend'
            AND a.state OPERATOR(pg_catalog.~~) 'idle in transaction%'
            AND a.state_change OPERATOR(pg_catalog.<) (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) pg_catalog.make_interval(secs => $1))";
}

statement! {
    /// Removes service $2 from those of cell $1 that are named for bucket types only.
    UNNAME(INT8OID, TEXTOID) = "DELETE FROM claims.attended_cells a WHERE a.cell_id = $1 AND a.service = $2 AND a.by_type";
    /// Keeps the service of cell $1 that service $2 is about to replace, while leases are tracked at it.
    KEEP_REPLACED(INT8OID, TEXTOID) =
        "UPDATE claims.attended_cells a SET by_type = true
          WHERE a.cell_id = $1 AND a.service <> $2 AND NOT a.by_type
            AND EXISTS (SELECT FROM claims.cells_outstanding_leases t WHERE t.cell_id = a.cell_id AND t.service = a.service)";
    ATTEND(INT8OID, TEXTOID, TEXTOID) =
        "INSERT INTO claims.attended_cells (cell_id, service, attended_in) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
    REPLACE(INT8OID, TEXTOID, TEXTOID) =
        "UPDATE claims.attended_cells a SET service = $2, attended_in = $3
          WHERE a.cell_id = $1 AND NOT a.by_type AND (a.service, a.attended_in) IS DISTINCT FROM ($2, $3)";
    /// Adds the services that automatic mode names for bucket types.
    ATTEND_NAMED(INT8OID, TEXTOID) =
        "INSERT INTO claims.attended_cells (cell_id, service, attended_in, by_type)
         SELECT DISTINCT t.cell_id, t.service, $2, true FROM claims.automatic_types t WHERE t.cell_id = $1 ON CONFLICT DO NOTHING";
    /// Adds service $2 to those of cell $1.
    ATTEND_ALSO(INT8OID, TEXTOID, TEXTOID) =
        "INSERT INTO claims.attended_cells AS a (cell_id, service, attended_in, by_type) VALUES ($1, $2, $3, true)
         ON CONFLICT (cell_id, service) DO UPDATE SET attended_in = excluded.attended_in
          WHERE a.attended_in IS DISTINCT FROM excluded.attended_in";
    /// Locks the row of cell $1 and service $2, which is named for bucket types only, if its foreign server does not exist. Skips the row
    /// if a transaction is choosing that service.
    LOCK_DROPPED(INT8OID, TEXTOID) =
        "SELECT FROM claims.attended_cells a
          WHERE a.cell_id = $1 AND a.service = $2 AND a.by_type
            AND NOT EXISTS (SELECT FROM pg_foreign_server s WHERE s.srvname = a.service::name) FOR UPDATE SKIP LOCKED";
    /// Removes the row that [LOCK_DROPPED] has locked, if no bucket type is claimed at the service, and no lease is tracked there.
    FORGET_DROPPED(INT8OID, TEXTOID) =
        "DELETE FROM claims.attended_cells a
          WHERE a.cell_id = $1 AND a.service = $2 AND a.by_type
            AND NOT EXISTS (SELECT FROM pg_foreign_server s WHERE s.srvname = a.service::name)
            AND NOT EXISTS (SELECT FROM claims.automatic_types t WHERE t.service = a.service)
            AND NOT EXISTS (SELECT FROM claims.automatic_service d WHERE d.service = a.service)
            AND NOT EXISTS (SELECT FROM claims.cells_outstanding_leases t WHERE t.service = a.service)";
    DISMISS(INT8OID) = "DELETE FROM claims.attended_cells a WHERE a.cell_id = $1";
    /// Returns leases that cell $1 tracked at service $5 up to $2 milliseconds ago, at most $4, each with whether it was tracked at least
    /// $3 milliseconds ago.
    REMAINING(INT8OID, INT8OID, INT8OID, INT8OID, TEXTOID) = concat!(
        "SELECT t.uuid, t.created_at <= clock_timestamp() - make_interval(secs => $3 / 1000.0)
           FROM claims.cells_outstanding_leases t
          WHERE t.cell_id = $1 AND t.created_at >= clock_timestamp() - make_interval(secs => $2 / 1000.0) AND ", at_service!("$5"), "
          LIMIT $4");
    SOURCE_TYPES() = "SELECT DISTINCT a.source_type FROM claims.claimed_attributes a ORDER BY 1";
}

/// Returns the owner of the extension's objects.
pub fn owner(connection: &Connection) -> Option<Oid> {
    connection.run(&OWNER, View::Latest, []).first(|row| row.must(1))
}

/// A session that is idle in a transaction with an id.
pub struct IdleSession {
    pub pid: i32,
    pub role: String,
}

/// Returns the sessions of any database that have been idle in a transaction with an id for so long.
pub fn idle_with_ids(connection: &Connection, idle_seconds: i64) -> Vec<IdleSession> {
    connection
        .run(&IDLE_WITH_IDS, View::Latest, [idle_seconds.into()])
        .map(|row| IdleSession { pid: row.must(1), role: row.get(2).unwrap_or_default() })
}

/// A cell that the worker attends to, and the foreign server of one of its services.
#[derive(Clone, PartialEq, Eq)]
pub struct Attended {
    pub cell_id: i64,
    pub service: String,
    /// Whether it is named for bucket types only.
    pub by_type: bool,
    /// The foreign server, if it exists.
    pub server: Option<Oid>,
}

/// Returns the cells that the worker attends to.
pub fn attended(connection: &Connection) -> Vec<Attended> {
    let here = background::database_identity();
    connection.run(&ATTENDED, View::Latest, [here.into()]).map(|row| Attended {
        cell_id: row.must(1),
        service: row.must(2),
        by_type: row.must(3),
        server: row.get(4),
    })
}

/// Makes the worker attend to a cell; with `None`, makes it stop.
pub fn attend(connection: &Connection, cell_id: i64, service: Option<&str>) {
    match service {
        Some(service) => {
            let here = background::database_identity();
            connection.run(&UNNAME, View::Statement, [cell_id.into(), service.into()]);
            connection.run(&KEEP_REPLACED, View::Statement, [cell_id.into(), service.into()]);
            connection.run(&ATTEND, View::Statement, [cell_id.into(), service.into(), here.clone().into()]);
            connection.run(&REPLACE, View::Statement, [cell_id.into(), service.into(), here.clone().into()]);
            connection.run(&ATTEND_NAMED, View::Statement, [cell_id.into(), here.into()])
        }
        None => connection.run(&DISMISS, View::Statement, [cell_id.into()]),
    };
}

/// Makes the worker attend to a cell at a further service, which is named for bucket types.
pub fn attend_also(connection: &Connection, cell_id: i64, service: &str) {
    let here = background::database_identity();
    connection.run(&ATTEND_ALSO, View::Statement, [cell_id.into(), service.into(), here.into()]);
}

/// Makes the worker stop attending to a cell at a service whose foreign server was dropped, if nothing calls for it any more. Returns
/// whether it did.
pub fn forget_dropped(connection: &Connection, cell_id: i64, service: &str) -> bool {
    // A transaction that chooses the service locks this row first. So the second statement sees what it has committed.
    connection.run(&LOCK_DROPPED, View::LatestToWrite, [cell_id.into(), service.into()]).count() > 0
        && connection.run(&FORGET_DROPPED, View::LatestToWrite, [cell_id.into(), service.into()]).count() > 0
}

/// The tracked leases that are not forgotten yet.
pub struct RemainingLeases {
    /// Leases tracked long enough ago that their sessions have had time to settle them.
    pub ripe: Vec<Uuid>,
    /// Whether there are younger ones.
    pub has_unripe: bool,
}

/// Returns the leases that were tracked at a service up to `oldest_ms` milliseconds ago, at most `limit`. Those of at least `ripe_ms`
/// milliseconds are ripe.
pub fn remaining(
    connection: &Connection,
    (cell_id, service): (i64, &str),
    oldest_ms: i64,
    ripe_ms: i64,
    limit: i64,
) -> RemainingLeases {
    let values = [cell_id.into(), oldest_ms.into(), ripe_ms.into(), limit.into(), service.into()];
    let rows = connection.run(&REMAINING, View::Latest, values);
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
