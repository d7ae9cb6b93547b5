//! Statements on claims.pass_log, which the view `claims.passes` shows.

use uuid::Uuid;

use crate::error::Failure;
use pg::clock::Moment;
use pg::jsonb::JsonText;
use pg::spi::{Connection, Value, View};
use pg::statement::shared_statement;
use pg::table;
use pg::uuid::pg_uuid;

shared_statement! {
    /// Inserts a row, and deletes all but the newest $9 rows of its kind. Of verification and purging it keeps what [LAST] finds, however
    /// many passes of other cells, source types and services have followed: intervals go on from there after a restart. Of recovery it does
    /// not, or the metrics would report the age of a cell that is not attended to any more for ever. Skips rows that another session is
    /// deleting.
    RECORD(TEXTOID, INT8OID, TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID, JSONBOID, TEXTOID, TEXTOID, INT8OID, UUIDOID, TEXTOID) =
        "WITH oldest AS MATERIALIZED (
             SELECT coalesce((SELECT p.id FROM claims.pass_log p WHERE p.kind = $1 ORDER BY p.id DESC OFFSET $9 - 1 LIMIT 1), '00000000-0000-0000-0000-000000000000') AS id),
              last AS MATERIALIZED (
             SELECT DISTINCT ON (p.cell_id, p.source_type, p.service) p.id FROM claims.pass_log p
              WHERE p.kind = $1 AND p.kind IN ('purge', 'verify') AND p.sqlstate IS NULL AND p.counts -> 'finished' IS DISTINCT FROM '0'
              ORDER BY p.cell_id, p.source_type, p.service, p.id DESC),
              old AS MATERIALIZED (
             SELECT p.id FROM claims.pass_log p
              WHERE p.kind = $1 AND p.id <= (SELECT o.id FROM oldest o) AND p.id NOT IN (SELECT l.id FROM last l)
              ORDER BY p.id FOR UPDATE SKIP LOCKED),
              dropped AS (DELETE FROM claims.pass_log p USING old WHERE p.id = old.id)
         INSERT INTO claims.pass_log (id, kind, cell_id, source_type, started_at, ended_at, counts, sqlstate, message, service)
         VALUES ($10, $1, $2, $3, $4, $5, $6, $7, $8, $11)";
    /// Returns whether the newest pass of kind $1, cell $2 and source type $3 at service $4 failed.
    FAILED_LAST(TEXTOID, INT8OID, TEXTOID, TEXTOID) =
        "SELECT p.sqlstate IS NOT NULL FROM claims.pass_log p
          WHERE p.kind = $1 AND p.cell_id IS NOT DISTINCT FROM $2 AND p.source_type IS NOT DISTINCT FROM $3
            AND p.service IS NOT DISTINCT FROM $4
          ORDER BY p.id DESC LIMIT 1";
    /// Returns when the last pass of kind $1, cell $2 and source type $3 at service $4 ended that succeeded, and finished if it was a
    /// verification. Passes of earlier versions have no service.
    LAST(TEXTOID, INT8OID, TEXTOID, TEXTOID) =
        "SELECT p.ended_at FROM claims.pass_log p
          WHERE p.kind = $1 AND p.cell_id IS NOT DISTINCT FROM $2 AND p.source_type IS NOT DISTINCT FROM $3 AND p.sqlstate IS NULL
            AND (p.service IS NULL OR p.service IS NOT DISTINCT FROM $4)
            AND p.counts -> 'finished' IS DISTINCT FROM '0'
          ORDER BY p.id DESC LIMIT 1";
}

shared_statement! {
    /// Inserts a row of a failed update into the table of any version that has it, and deletes all but the newest 1000 of its kind.
    RECORD_BEFORE_UPDATE(UUIDOID, TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID, TEXTOID, TEXTOID) =
        "WITH dropped AS (DELETE FROM claims.pass_log p USING (SELECT o.id FROM claims.pass_log o WHERE o.kind = $2 ORDER BY o.id DESC OFFSET 999) o
                           WHERE p.id = o.id)
         INSERT INTO claims.pass_log (id, kind, started_at, ended_at, sqlstate, message) VALUES ($1, $2, $3, $4, $5, $6)";
}

/// Records that an update of the extension has failed, in the tables of an older version. Tables of 1.0.0 have no log of passes.
pub fn failed_to_update(connection: &Connection, pass: Pass, failure: &Failure) {
    if table::number(c"pass_log").is_none() {
        return;
    }
    let (id, ended_at) = (pg_uuid(Uuid::now_v7()), Moment::now());
    let error = [failure.sqlstate.clone().into(), failure.message.clone().into()];
    let values = [id.into(), pass.kind.into(), pass.started_at.into(), ended_at.into()].into_iter().chain(error);
    connection.run(&RECORD_BEFORE_UPDATE, View::Statement, values);
}

/// Returns when the last successful pass ended, of a cell, a source type and a service if it has them.
pub fn last(
    connection: &Connection,
    kind: &str,
    cell_id: Option<i64>,
    source_type: Option<&str>,
    service: Option<&str>,
) -> Option<Moment> {
    let values = [kind.into(), cell_id.into(), source_type.into(), service.into()];
    connection.run(&LAST, View::Latest, values).first(|row| row.must(1))
}

/// Number of rows that the log keeps for each kind.
const MAX_ROWS_PER_KIND: i64 = 1000;

/// A pass in progress: recovery, verification and purging leave a row each.
pub struct Pass<'a> {
    pub kind: &'static str,
    pub cell_id: Option<i64>,
    pub source_type: Option<&'a str>,
    /// The foreign server of the service that it calls.
    pub service: Option<&'a str>,
    started_at: Moment,
}

impl<'a> Pass<'a> {
    pub fn begin(
        kind: &'static str,
        cell_id: Option<i64>,
        source_type: Option<&'a str>,
        service: Option<&'a str>,
    ) -> Self {
        Pass { kind, cell_id, source_type, service, started_at: Moment::now() }
    }

    /// It succeeded, with these counts.
    pub fn succeeded(self, connection: &Connection, counts: &[(&str, i64)]) {
        let counts: serde_json::Map<_, _> =
            counts.iter().map(|(name, count)| ((*name).to_owned(), (*count).into())).collect();
        self.record(connection, Some(serde_json::Value::Object(counts).to_string()), None);
    }

    /// It succeeded, and is of a kind of which only failures are logged: records it if the newest pass of its kind failed.
    pub fn recovered(self, connection: &Connection) {
        let values = [self.kind.into(), self.cell_id.into(), self.source_type.into(), self.service.into()];
        if connection.run(&FAILED_LAST, View::Latest, values).first(|row| row.must(1)).unwrap_or(false) {
            self.succeeded(connection, &[]);
        }
    }

    /// An error ended it, and what it had written is rolled back.
    pub fn failed(self, connection: &Connection, failure: &Failure) {
        self.record(connection, None, Some((failure.sqlstate.clone(), failure.message.clone())));
    }

    /// Inserts its row. Does not wait for other transactions.
    fn record(self, connection: &Connection, counts: Option<String>, error: Option<(String, String)>) {
        let (sqlstate, message) = error.unzip();
        let values: [Value; 11] = [
            self.kind.into(),
            self.cell_id.into(),
            self.source_type.into(),
            self.started_at.into(),
            Moment::now().into(),
            counts.map(JsonText).into(),
            sqlstate.into(),
            message.into(),
            MAX_ROWS_PER_KIND.into(),
            pg_uuid(Uuid::now_v7()).into(),
            self.service.into(),
        ];
        connection.run(&RECORD, View::Statement, values);
    }
}
