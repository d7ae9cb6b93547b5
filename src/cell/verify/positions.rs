//! Statements on the positions at which verifications stopped because of max_runtime.

use pg::query::query;
use pg::spi::Connection;

query! {
    fn read(cell_id: i64, service: &str, source_type: &str) -> Option<String> = [Latest]
        "SELECT p.source_id FROM claims.verification_positions p
          WHERE p.cell_id = :cell_id AND p.service = :service AND p.source_type = :source_type";
    fn write(cell_id: i64, service: &str, source_type: &str, source_id: &str) = [Statement]
        "INSERT INTO claims.verification_positions AS p (cell_id, service, source_type, source_id)
         VALUES (:cell_id, :service, :source_type, :source_id)
         ON CONFLICT (cell_id, service, source_type) DO UPDATE SET source_id = excluded.source_id, stopped_at = clock_timestamp()";
    fn forget(cell_id: i64, service: &str, source_type: &str) = [Statement]
        "DELETE FROM claims.verification_positions p
          WHERE p.cell_id = :cell_id AND p.service = :service AND p.source_type = :source_type";
}

/// The claims of a cell from one source type at a service.
#[derive(Clone, Copy)]
pub struct PositionKey<'w> {
    pub cell_id: i64,
    pub service: &'w str,
    pub source_type: &'w str,
}

/// Returns the source id up to which the last call has verified everything. `None`: start at the beginning.
pub fn position(connection: &Connection, PositionKey { cell_id, service, source_type }: PositionKey) -> Option<String> {
    read(connection, cell_id, service, source_type)
}

/// Stores the position at which a call stopped. `None` deletes it: the next call starts at the beginning.
pub fn store(
    connection: &Connection,
    PositionKey { cell_id, service, source_type }: PositionKey,
    source_id: Option<&str>,
) {
    match source_id {
        Some(source_id) => write(connection, cell_id, service, source_type, source_id),
        None => forget(connection, cell_id, service, source_type),
    }
}
