//! Statements on imports: their positions, the rows to try again, and the names that could not be claimed.

use pg::query::{query, record};
use pg::spi::Connection;

record! {
    /// The state of an import between two batches.
    pub struct ImportState {
        /// The source id up to which all rows are read.
        pub source_id: Option<String>,
        /// Whether all rows are read.
        pub is_read: bool,
        pub rows_done: i64,
        pub collisions: i64,
        pub estimated: i64,
    }
}

query! {
    /// Returns the process of another session that is importing a source type of a cell, at whatever service.
    pub fn running(cell_id: i64, source_type: &str) -> Option<i32> = [Latest]
        "SELECT i.pid FROM claims.list_imports() i
          WHERE i.cell_id = :cell_id AND i.source_type = :source_type AND i.state = 'running' AND i.pid <> pg_backend_pid()";
    /// Continues an import, or begins it anew if the last one has finished. Returns whether it is new.
    fn begin_run(cell_id: i64, source_type: &str, service: &str, estimated: i64) -> bool = [Statement]
        "INSERT INTO claims.import_runs AS r (cell_id, source_type, service, estimated, pid, call_began_at)
         VALUES (:cell_id, :source_type, :service, :estimated, pg_backend_pid(), statement_timestamp())
         ON CONFLICT (cell_id, source_type, service) DO UPDATE
            SET estimated = excluded.estimated, pid = excluded.pid, call_began_at = excluded.call_began_at, rate = NULL,
                finished_at = NULL,
                source_id = CASE WHEN r.finished_at IS NULL THEN r.source_id END, is_read = r.is_read AND r.finished_at IS NULL,
                rows_done = CASE WHEN r.finished_at IS NULL THEN r.rows_done ELSE 0 END,
                collisions = CASE WHEN r.finished_at IS NULL THEN r.collisions ELSE 0 END,
                skipped = CASE WHEN r.finished_at IS NULL THEN r.skipped ELSE 0 END,
                started_at = CASE WHEN r.finished_at IS NULL THEN r.started_at ELSE clock_timestamp() END
         RETURNING r.rows_done = 0 AND r.source_id IS NULL AND NOT r.is_read";
    fn forget(cell_id: i64, source_type: &str, service: &str) = [Statement]
        "WITH leftovers AS (DELETE FROM claims.import_leftovers l
                             WHERE l.cell_id = :cell_id AND l.source_type = :source_type AND l.service = :service)
         DELETE FROM claims.imported_collisions c WHERE c.cell_id = :cell_id AND c.source_type = :source_type AND c.service = :service";
    fn lock_run(cell_id: i64, source_type: &str, service: &str) -> Option<ImportState> = [Statement]
        "SELECT r.source_id, r.is_read, r.rows_done, r.collisions, r.estimated FROM claims.import_runs r
          WHERE r.cell_id = :cell_id AND r.source_type = :source_type AND r.service = :service FOR UPDATE";
    fn advance_run(cell_id: i64, source_type: &str, service: &str, source_id: Option<&str>, is_read: bool, rows: i64, collisions: i64,
                   skipped: i64, rate: i64, is_finished: bool) = [Statement]
        "UPDATE claims.import_runs
            SET source_id = :source_id, is_read = :is_read, rows_done = rows_done + :rows, collisions = collisions + :collisions,
                skipped = skipped + :skipped, rate = :rate, updated_at = clock_timestamp(),
                finished_at = CASE WHEN :is_finished THEN clock_timestamp() END
          WHERE cell_id = :cell_id AND source_type = :source_type AND service = :service";
    fn insert_leftovers(cell_id: i64, source_type: &str, service: &str, source_ids: &[String]) = [Statement]
        "INSERT INTO claims.import_leftovers (cell_id, source_type, service, source_id)
         SELECT :cell_id, :source_type, :service, unnest(:source_ids) ON CONFLICT DO NOTHING";
    fn delete_leftovers(cell_id: i64, source_type: &str, service: &str, source_ids: &[String]) = [Statement]
        "DELETE FROM claims.import_leftovers
          WHERE cell_id = :cell_id AND source_type = :source_type AND service = :service AND source_id = ANY (:source_ids)";
    fn leftovers_above(cell_id: i64, source_type: &str, service: &str, above: &str, most: i64) -> Vec<String> = [Latest]
        "SELECT l.source_id FROM claims.import_leftovers l
          WHERE l.cell_id = :cell_id AND l.source_type = :source_type AND l.service = :service AND l.source_id > :above
          ORDER BY l.source_id LIMIT :most";
    /// Adds names, in the order of the arrays. The import is locked, so that nobody else adds some. Returns how many are new.
    fn insert_collisions(cell_id: i64, source_type: &str, service: &str, bucket_types: Vec<&str>, bucket_values: Vec<&str>,
                         source_ids: Vec<&str>, reasons: Vec<&str>, holders: Vec<Option<i64>>) -> usize = [Statement]
        "INSERT INTO claims.imported_collisions (cell_id, source_type, service, bucket_type, bucket_value, source_id, reason, holder_cell_id, id)
         SELECT :cell_id, :source_type, :service, u.bucket_type, u.bucket_value, u.source_id, u.reason, u.holder,
                u.place + (SELECT coalesce(max(c.id), 0) FROM claims.imported_collisions c
                            WHERE c.cell_id = :cell_id AND c.source_type = :source_type)
           FROM unnest(:bucket_types, :bucket_values, :source_ids, :reasons, :holders)
                WITH ORDINALITY AS u (bucket_type, bucket_value, source_id, reason, holder, place)
             ON CONFLICT DO NOTHING RETURNING 1";
}

/// The key of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportKey {
    pub cell_id: i64,
    pub source_type: String,
    pub service: String,
}

/// A name that could not be claimed.
pub struct CollidingName {
    pub bucket_type: String,
    pub value: String,
    pub source_id: String,
    pub reason: String,
    pub holder: Option<i64>,
}

/// The progress of a batch.
#[derive(Default)]
pub struct BatchCounts {
    pub rows: i64,
    pub collisions: i64,
    pub skipped: i64,
    /// Rows a second, of the whole call.
    pub rate: i64,
    /// Whether nothing is left to import.
    pub is_finished: bool,
}

impl ImportKey {
    /// Continues an import, or begins a new one. Waits for another transaction that does the same.
    pub fn begin(&self, connection: &Connection, estimated: i64) {
        if begin_run(connection, self.cell_id, &self.source_type, &self.service, estimated) {
            forget(connection, self.cell_id, &self.source_type, &self.service);
        }
    }

    /// Locks an import until the transaction ends. Returns `None` if it was deleted.
    pub fn lock(&self, connection: &Connection) -> Option<ImportState> {
        lock_run(connection, self.cell_id, &self.source_type, &self.service)
    }

    /// Stores the position and the counts after a batch.
    pub fn advance(&self, connection: &Connection, state: &ImportState, counts: &BatchCounts) {
        let ImportKey { cell_id, source_type, service } = self;
        let ImportState { source_id, is_read, .. } = state;
        let BatchCounts { rows, collisions, skipped, rate, is_finished } = *counts;
        advance_run(
            connection,
            *cell_id,
            source_type,
            service,
            source_id.as_deref(),
            *is_read,
            rows,
            collisions,
            skipped,
            rate,
            is_finished,
        );
    }

    pub fn add_leftovers(&self, connection: &Connection, source_ids: &[String]) {
        insert_leftovers(connection, self.cell_id, &self.source_type, &self.service, source_ids);
    }

    pub fn remove_leftovers(&self, connection: &Connection, source_ids: &[String]) {
        delete_leftovers(connection, self.cell_id, &self.source_type, &self.service, source_ids);
    }

    /// Returns rows to try again, at most `most` of those above a source id.
    pub fn leftovers(&self, connection: &Connection, above: &str, most: i64) -> Vec<String> {
        leftovers_above(connection, self.cell_id, &self.source_type, &self.service, above, most)
    }

    /// Stores names that could not be claimed. Returns how many of them are new.
    pub fn add_collisions(&self, connection: &Connection, names: &[CollidingName]) -> usize {
        let texts = |text: fn(&CollidingName) -> &str| names.iter().map(text).collect::<Vec<&str>>();
        insert_collisions(
            connection,
            self.cell_id,
            &self.source_type,
            &self.service,
            texts(|name| &name.bucket_type),
            texts(|name| &name.value),
            texts(|name| &name.source_id),
            texts(|name| &name.reason),
            names.iter().map(|name| name.holder).collect(),
        )
    }
}
