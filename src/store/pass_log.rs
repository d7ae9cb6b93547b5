//! Statements on the log of passes, which `claims.passes` shows.

use uuid::Uuid;

use crate::pg::clock::Moment;
use crate::pg::jsonb::JsonText;
use crate::pg::spi::{Connection, View};
use crate::pg::statement::shared_statement;
use crate::pg::uuid::pg_uuid;

shared_statement! {
    /// Inserts a row, and deletes those of its kind that are older than the newest $9, skipping rows that another session is
    /// deleting.
    RECORD(TEXTOID, INT8OID, TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID, JSONBOID, TEXTOID, TEXTOID, INT8OID, UUIDOID) =
        "WITH oldest AS MATERIALIZED (
             SELECT coalesce((SELECT p.id FROM claims.pass_log p WHERE p.kind = $1 ORDER BY p.id DESC OFFSET $9 - 1 LIMIT 1), '00000000-0000-0000-0000-000000000000') AS id),
              old AS MATERIALIZED (
             SELECT p.id FROM claims.pass_log p WHERE p.kind = $1 AND p.id <= (SELECT o.id FROM oldest o) ORDER BY p.id
                FOR UPDATE SKIP LOCKED),
              dropped AS (DELETE FROM claims.pass_log p USING old WHERE p.id = old.id)
         INSERT INTO claims.pass_log (id, kind, cell_id, source_type, started_at, ended_at, counts, sqlstate, message)
         VALUES ($10, $1, $2, $3, $4, $5, $6, $7, $8)";
}

/// Rows that are kept of each kind.
const KEPT: i64 = 1000;

/// A pass and its result.
pub struct PassEntry<'a> {
    pub kind: &'static str,
    pub cell_id: Option<i64>,
    pub source_type: Option<&'a str>,
    pub started_at: Moment,
    pub counts: Option<String>,
    /// SQLSTATE and message of the error that ended it.
    pub error: Option<(String, String)>,
}

/// Adds an entry. Does not wait.
pub fn record(connection: &Connection, entry: PassEntry) {
    let (sqlstate, message) = entry.error.unzip();
    connection.run(
        &RECORD,
        View::Statement,
        [
            entry.kind.into(),
            entry.cell_id.into(),
            entry.source_type.into(),
            entry.started_at.into(),
            Moment::now().into(),
            entry.counts.map(JsonText).into(),
            sqlstate.into(),
            message.into(),
            KEPT.into(),
            pg_uuid(Uuid::now_v7()).into(),
        ],
    );
}
