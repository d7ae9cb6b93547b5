//! Statements on imports: their positions, the rows to try again, and the names that could not be claimed.

use pg::spi::{Connection, Row, Value, View};
use pg::statement::statement;

statement! {
    /// Returns the process of another session that is importing source type $2 of cell $1, at whatever service.
    RUNNING(INT8OID, TEXTOID) =
        "SELECT i.pid FROM claims.list_imports() i
          WHERE i.cell_id = $1 AND i.source_type = $2 AND i.state = 'running' AND i.pid <> pg_backend_pid()";
    /// Continues an import, or begins it anew if the last one has finished.
    BEGIN(INT8OID, TEXTOID, TEXTOID, INT8OID) =
        "INSERT INTO claims.import_runs AS r (cell_id, source_type, service, estimated, pid, call_began_at)
         VALUES ($1, $2, $3, $4, pg_backend_pid(), statement_timestamp())
         ON CONFLICT (cell_id, source_type, service) DO UPDATE
            SET estimated = excluded.estimated, pid = excluded.pid, call_began_at = excluded.call_began_at, rate = NULL,
                finished_at = NULL,
                source_id = CASE WHEN r.finished_at IS NULL THEN r.source_id END, is_read = r.is_read AND r.finished_at IS NULL,
                rows_done = CASE WHEN r.finished_at IS NULL THEN r.rows_done ELSE 0 END,
                collisions = CASE WHEN r.finished_at IS NULL THEN r.collisions ELSE 0 END,
                skipped = CASE WHEN r.finished_at IS NULL THEN r.skipped ELSE 0 END,
                started_at = CASE WHEN r.finished_at IS NULL THEN r.started_at ELSE clock_timestamp() END
         RETURNING r.rows_done = 0 AND r.source_id IS NULL AND NOT r.is_read";
    FORGET(INT8OID, TEXTOID, TEXTOID) =
        "WITH leftovers AS (DELETE FROM claims.import_leftovers l WHERE l.cell_id = $1 AND l.source_type = $2 AND l.service = $3)
         DELETE FROM claims.imported_collisions c WHERE c.cell_id = $1 AND c.source_type = $2 AND c.service = $3";
    /// Locks an import, and returns its position.
    LOCK(INT8OID, TEXTOID, TEXTOID) =
        "SELECT r.source_id, r.is_read, r.rows_done, r.collisions, r.estimated FROM claims.import_runs r
          WHERE r.cell_id = $1 AND r.source_type = $2 AND r.service = $3 FOR UPDATE";
    ADVANCE(INT8OID, TEXTOID, TEXTOID, TEXTOID, BOOLOID, INT8OID, INT8OID, INT8OID, INT8OID, BOOLOID) =
        "UPDATE claims.import_runs
            SET source_id = $4, is_read = $5, rows_done = rows_done + $6, collisions = collisions + $7, skipped = skipped + $8, rate = $9,
                updated_at = clock_timestamp(), finished_at = CASE WHEN $10 THEN clock_timestamp() END
          WHERE cell_id = $1 AND source_type = $2 AND service = $3";
    ADD_LEFTOVERS(INT8OID, TEXTOID, TEXTOID, TEXTARRAYOID) =
        "INSERT INTO claims.import_leftovers (cell_id, source_type, service, source_id) SELECT $1, $2, $3, unnest($4) ON CONFLICT DO NOTHING";
    REMOVE_LEFTOVERS(INT8OID, TEXTOID, TEXTOID, TEXTARRAYOID) =
        "DELETE FROM claims.import_leftovers WHERE cell_id = $1 AND source_type = $2 AND service = $3 AND source_id = ANY ($4)";
    LEFTOVERS(INT8OID, TEXTOID, TEXTOID, TEXTOID, INT8OID) =
        "SELECT l.source_id FROM claims.import_leftovers l
          WHERE l.cell_id = $1 AND l.source_type = $2 AND l.service = $3 AND l.source_id > $4 ORDER BY l.source_id LIMIT $5";
    /// Adds names, in the order of the arrays. The import is locked, so that nobody else adds some.
    ADD_COLLISIONS(INT8OID, TEXTOID, TEXTOID, TEXTARRAYOID, TEXTARRAYOID, TEXTARRAYOID, TEXTARRAYOID, INT8ARRAYOID) =
        "INSERT INTO claims.imported_collisions (cell_id, source_type, service, bucket_type, bucket_value, source_id, reason, holder_cell_id, id)
         SELECT $1, $2, $3, u.bucket_type, u.bucket_value, u.source_id, u.reason, nullif(u.holder, -1),
                u.place + (SELECT coalesce(max(c.id), 0) FROM claims.imported_collisions c WHERE c.cell_id = $1 AND c.source_type = $2)
           FROM unnest($4, $5, $6, $7, $8) WITH ORDINALITY AS u (bucket_type, bucket_value, source_id, reason, holder, place)
             ON CONFLICT DO NOTHING RETURNING 1";
}

/// The key of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportKey {
    pub cell_id: i64,
    pub source_type: String,
    pub service: String,
}

impl ImportKey {
    fn values(&self) -> [Value; 3] {
        [self.cell_id.into(), self.source_type.as_str().into(), self.service.as_str().into()]
    }
}

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
}

/// Returns the process of another session that runs the import.
pub fn running(connection: &Connection, key: &ImportKey) -> Option<i32> {
    let values = [key.cell_id.into(), key.source_type.as_str().into()];
    connection.run(&RUNNING, View::Latest, values).first(|row| row.must(1))
}

/// Continues an import, or begins a new one. Waits for another transaction that does the same.
pub fn begin(connection: &Connection, key: &ImportKey, estimated: i64) {
    let [cell_id, source_type, service] = key.values();
    let values = [cell_id, source_type, service, estimated.into()];
    let is_new = connection.run(&BEGIN, View::Statement, values).first(|row| row.must(1));
    if is_new == Some(true) {
        connection.run(&FORGET, View::Statement, key.values());
    }
}

/// Locks an import until the transaction ends. Returns `None` if it was deleted.
pub fn lock(connection: &Connection, key: &ImportKey) -> Option<ImportState> {
    let rows = connection.run(&LOCK, View::Statement, key.values());
    rows.first(|row: Row| ImportState {
        source_id: row.get(1),
        is_read: row.must(2),
        rows_done: row.must(3),
        collisions: row.must(4),
        estimated: row.must(5),
    })
}

/// Stores the position and the counts after a batch.
pub fn advance(
    connection: &Connection,
    key: &ImportKey,
    state: &ImportState,
    counts: &BatchCounts,
    rate: i64,
    is_finished: bool,
) {
    let values = [
        key.cell_id.into(),
        key.source_type.as_str().into(),
        key.service.as_str().into(),
        state.source_id.clone().into(),
        state.is_read.into(),
        counts.rows.into(),
        counts.collisions.into(),
        counts.skipped.into(),
        rate.into(),
        is_finished.into(),
    ];
    connection.run(&ADVANCE, View::Statement, values);
}

pub fn add_leftovers(connection: &Connection, key: &ImportKey, source_ids: Vec<String>) {
    let [cell_id, source_type, service] = key.values();
    let values = [cell_id, source_type, service, source_ids.into()];
    connection.run(&ADD_LEFTOVERS, View::Statement, values);
}

pub fn remove_leftovers(connection: &Connection, key: &ImportKey, source_ids: Vec<String>) {
    let [cell_id, source_type, service] = key.values();
    let values = [cell_id, source_type, service, source_ids.into()];
    connection.run(&REMOVE_LEFTOVERS, View::Statement, values);
}

/// Returns rows to try again, at most `limit` of those above a source id.
pub fn leftovers(connection: &Connection, key: &ImportKey, above: &str, limit: i64) -> Vec<String> {
    let [cell_id, source_type, service] = key.values();
    let values = [cell_id, source_type, service, above.into(), limit.into()];
    connection.run(&LEFTOVERS, View::Latest, values).map(|row| row.must(1))
}

/// Stores names that could not be claimed. Returns how many of them are new.
pub fn add_collisions(connection: &Connection, key: &ImportKey, names: &[CollidingName]) -> usize {
    let texts = |text: fn(&CollidingName) -> &str| names.iter().map(text).collect::<Vec<&str>>();
    let holders: Vec<i64> = names.iter().map(|name| name.holder.unwrap_or(-1)).collect();
    let values = [
        key.cell_id.into(),
        key.source_type.as_str().into(),
        key.service.as_str().into(),
        texts(|name| &name.bucket_type).into(),
        texts(|name| &name.value).into(),
        texts(|name| &name.source_id).into(),
        texts(|name| &name.reason).into(),
        holders.into(),
    ];
    connection.run(&ADD_COLLISIONS, View::Statement, values).count()
}
