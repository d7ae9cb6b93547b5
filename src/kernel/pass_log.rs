//! Statements on claims.pass_log, which the view `claims.passes` shows.

use pgrx::PgSqlErrorCode;
use uuid::Uuid;

use pg::clock::Moment;
use pg::jsonb::JsonText;
use pg::query::query;
use pg::spi::Connection;
use pg::sqlstate;
use pg::subtransaction::Caught;
use pg::table;

/// The error that ended a pass.
pub struct Failure {
    pub sqlstate: String,
    pub message: String,
    pub detail: Option<String>,
    /// The service that returned the error, if one did.
    pub service: Option<String>,
    /// Whether it happens in normal operation: `claims.passes` has it, and the server's log does not need it.
    pub is_expected: bool,
}

impl From<&Caught> for Failure {
    fn from(caught: &Caught) -> Self {
        let (sqlstate, message) = (sqlstate::text(caught.code()), caught.message().to_owned());
        Failure { sqlstate, message, detail: None, service: None, is_expected: false }
    }
}

impl Failure {
    /// Returns whether a lock was not to be had in time.
    pub fn is_of_a_lock(&self) -> bool {
        self.sqlstate == sqlstate::text(PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE)
    }
}

query! {
    /// Inserts a row, and deletes all but the newest `most` rows of its kind. Of verification and purging it keeps what [`last`] finds, however
    /// many passes of other cells, source types and services have followed: intervals go on from there after a restart. Of recovery it does
    /// not, or the metrics would report the age of a cell that is not attended to any more for ever. Skips rows that another session is
    /// deleting.
    fn insert(id: Uuid, kind: &str, cell_id: Option<i64>, source_type: Option<&str>, service: Option<&str>, started_at: Moment,
              ended_at: Moment, counts: Option<JsonText>, sqlstate: Option<&str>, message: Option<&str>, most: i64) = [Statement Anywhere]
        "WITH oldest AS MATERIALIZED (
             SELECT coalesce((SELECT p.id FROM claims.pass_log p WHERE p.kind = :kind ORDER BY p.id DESC OFFSET :most - 1 LIMIT 1),
                             '00000000-0000-0000-0000-000000000000') AS id),
              last AS MATERIALIZED (
             SELECT DISTINCT ON (p.cell_id, p.source_type, p.service) p.id FROM claims.pass_log p
              WHERE p.kind = :kind AND p.kind IN ('purge', 'verify') AND p.sqlstate IS NULL AND p.counts -> 'finished' IS DISTINCT FROM '0'
              ORDER BY p.cell_id, p.source_type, p.service, p.id DESC),
              old AS MATERIALIZED (
             SELECT p.id FROM claims.pass_log p
              WHERE p.kind = :kind AND p.id <= (SELECT o.id FROM oldest o) AND p.id NOT IN (SELECT l.id FROM last l)
              ORDER BY p.id FOR UPDATE SKIP LOCKED),
              dropped AS (DELETE FROM claims.pass_log p USING old WHERE p.id = old.id)
         INSERT INTO claims.pass_log (id, kind, cell_id, source_type, started_at, ended_at, counts, sqlstate, message, service)
         VALUES (:id, :kind, :cell_id, :source_type, :started_at, :ended_at, :counts, :sqlstate, :message, :service)";
    /// Returns whether the newest pass of a kind, a cell and a source type at a service failed.
    fn failed_last(kind: &str, cell_id: Option<i64>, source_type: Option<&str>, service: Option<&str>) -> bool = [Latest Anywhere]
        "SELECT p.sqlstate IS NOT NULL FROM claims.pass_log p
          WHERE p.kind = :kind AND p.cell_id IS NOT DISTINCT FROM :cell_id AND p.source_type IS NOT DISTINCT FROM :source_type
            AND p.service IS NOT DISTINCT FROM :service
          ORDER BY p.id DESC LIMIT 1";
    /// Returns when the last successful pass ended, of a cell, a source type and a service if it has them; of a verification, the last one
    /// that finished. Passes of earlier versions have no service.
    pub fn last(kind: &str, cell_id: Option<i64>, source_type: Option<&str>, service: Option<&str>) -> Option<Moment> = [Latest Anywhere]
        "SELECT p.ended_at FROM claims.pass_log p
          WHERE p.kind = :kind AND p.cell_id IS NOT DISTINCT FROM :cell_id AND p.source_type IS NOT DISTINCT FROM :source_type
            AND p.sqlstate IS NULL AND (p.service IS NULL OR p.service IS NOT DISTINCT FROM :service)
            AND p.counts -> 'finished' IS DISTINCT FROM '0'
          ORDER BY p.id DESC LIMIT 1";
    /// Inserts a row of a failed update into the table of any version that has it, and deletes all but the newest 1000 of its kind.
    fn insert_before_update(id: Uuid, kind: &str, started_at: Moment, ended_at: Moment, sqlstate: &str, message: &str) = [Statement Anywhere]
        "WITH dropped AS (DELETE FROM claims.pass_log p
                           USING (SELECT o.id FROM claims.pass_log o WHERE o.kind = :kind ORDER BY o.id DESC OFFSET 999) o WHERE p.id = o.id)
         INSERT INTO claims.pass_log (id, kind, started_at, ended_at, sqlstate, message)
         VALUES (:id, :kind, :started_at, :ended_at, :sqlstate, :message)";
}

/// Records that an update of the extension has failed, in the tables of an older version. Tables of 1.0.0 have no log of passes.
pub fn failed_to_update(connection: &Connection, pass: Pass, failure: &Failure) {
    if table::number(c"pass_log").is_none() {
        return;
    }
    let (id, ended_at) = (Uuid::now_v7(), Moment::now());
    insert_before_update(connection, id, pass.kind, pass.started_at, ended_at, &failure.sqlstate, &failure.message);
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
        if failed_last(connection, self.kind, self.cell_id, self.source_type, self.service) {
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
        insert(
            connection,
            Uuid::now_v7(),
            self.kind,
            self.cell_id,
            self.source_type,
            self.service,
            self.started_at,
            Moment::now(),
            counts.map(JsonText),
            sqlstate.as_deref(),
            message.as_deref(),
            MAX_ROWS_PER_KIND,
        );
    }
}
