//! Statements on `claims.attended_cells`: the cells that the worker attends to, and their services.

use pgrx::pg_sys::Oid;

use pg::background;
use pg::query::{query, record};
use pg::spi::Connection;

record! {
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
}

query! {
    /// Returns the cells that were attended in a database, and those that have an epoch, each with its services and their foreign servers.
    /// A cell without either is being restored.
    fn attended_in(database: &str) -> Vec<Attended> = [Latest Anywhere]
        "SELECT a.cell_id, a.service, a.by_type,
                (SELECT s.oid FROM pg_catalog.pg_foreign_server s WHERE s.srvname OPERATOR(pg_catalog.=) a.service::pg_catalog.name) AS server
           FROM claims.attended_cells a
          WHERE a.attended_in = :database OR EXISTS (SELECT FROM claims.own_epochs e WHERE e.cell_id = a.cell_id)
          ORDER BY a.cell_id, a.by_type, a.service";
    /// Removes a service from those of a cell that are named for bucket types only.
    fn unname(cell_id: i64, service: &str) = [Statement]
        "DELETE FROM claims.attended_cells a WHERE a.cell_id = :cell_id AND a.service = :service AND a.by_type";
    /// Keeps the service of a cell that another one is about to replace, while leases are tracked at it.
    fn keep_replaced(cell_id: i64, service: &str) = [Statement]
        "UPDATE claims.attended_cells a SET by_type = true
          WHERE a.cell_id = :cell_id AND a.service <> :service AND NOT a.by_type
            AND EXISTS (SELECT FROM claims.cells_outstanding_leases t WHERE t.cell_id = a.cell_id AND t.service = a.service)";
    fn insert(cell_id: i64, service: &str, database: &str) = [Statement]
        "INSERT INTO claims.attended_cells (cell_id, service, attended_in) VALUES (:cell_id, :service, :database) ON CONFLICT DO NOTHING";
    fn replace(cell_id: i64, service: &str, database: &str) = [Statement]
        "UPDATE claims.attended_cells a SET service = :service, attended_in = :database
          WHERE a.cell_id = :cell_id AND NOT a.by_type AND (a.service, a.attended_in) IS DISTINCT FROM (:service, :database)";
    /// Adds the services that automatic mode names for bucket types.
    fn insert_named(cell_id: i64, database: &str) = [Statement]
        "INSERT INTO claims.attended_cells (cell_id, service, attended_in, by_type)
         SELECT DISTINCT t.cell_id, t.service, :database, true FROM claims.automatic_types t WHERE t.cell_id = :cell_id ON CONFLICT DO NOTHING";
    /// Adds a service to those of a cell.
    fn insert_also(cell_id: i64, service: &str, database: &str) = [Statement]
        "INSERT INTO claims.attended_cells AS a (cell_id, service, attended_in, by_type) VALUES (:cell_id, :service, :database, true)
         ON CONFLICT (cell_id, service) DO UPDATE SET attended_in = excluded.attended_in
          WHERE a.attended_in IS DISTINCT FROM excluded.attended_in";
    /// Locks the row of a cell and a service, which is named for bucket types only, if its foreign server does not exist. Skips the row if a
    /// transaction is choosing that service.
    fn lock_dropped(cell_id: i64, service: &str) -> bool = [LatestToWrite]
        "SELECT FROM claims.attended_cells a
          WHERE a.cell_id = :cell_id AND a.service = :service AND a.by_type
            AND NOT EXISTS (SELECT FROM pg_foreign_server s WHERE s.srvname = a.service::name) FOR UPDATE SKIP LOCKED";
    /// Removes the row that [`lock_dropped`] has locked, if no bucket type is claimed at the service, and no lease is tracked there.
    fn delete_dropped(cell_id: i64, service: &str) -> bool = [LatestToWrite]
        "DELETE FROM claims.attended_cells a
          WHERE a.cell_id = :cell_id AND a.service = :service AND a.by_type
            AND NOT EXISTS (SELECT FROM pg_foreign_server s WHERE s.srvname = a.service::name)
            AND NOT EXISTS (SELECT FROM claims.automatic_types t WHERE t.service = a.service)
            AND NOT EXISTS (SELECT FROM claims.automatic_service d WHERE d.service = a.service)
            AND NOT EXISTS (SELECT FROM claims.cells_outstanding_leases t WHERE t.service = a.service)";
    fn dismiss(cell_id: i64) = [Statement] "DELETE FROM claims.attended_cells a WHERE a.cell_id = :cell_id";
}

/// Returns the cells that the worker attends to.
pub fn attended(connection: &Connection) -> Vec<Attended> {
    attended_in(connection, &background::database_identity())
}

/// Makes the worker attend to a cell; with `None`, makes it stop.
pub fn attend(connection: &Connection, cell_id: i64, service: Option<&str>) {
    match service {
        Some(service) => {
            let here = background::database_identity();
            unname(connection, cell_id, service);
            keep_replaced(connection, cell_id, service);
            insert(connection, cell_id, service, &here);
            replace(connection, cell_id, service, &here);
            insert_named(connection, cell_id, &here);
        }
        None => dismiss(connection, cell_id),
    }
}

/// Makes the worker attend to a cell at a further service, which is named for bucket types.
pub fn attend_also(connection: &Connection, cell_id: i64, service: &str) {
    insert_also(connection, cell_id, service, &background::database_identity());
}

/// Makes the worker stop attending to a cell at a service whose foreign server was dropped, if nothing calls for it any more. Returns
/// whether it did.
pub fn forget_dropped(connection: &Connection, cell_id: i64, service: &str) -> bool {
    // A transaction that chooses the service locks this row first. So the second statement sees what it has committed.
    lock_dropped(connection, cell_id, service) && delete_dropped(connection, cell_id, service)
}
