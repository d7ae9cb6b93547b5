//! Writes and purges the audit log. In this database it is written without statements, if it is as the extension has created it.

use pgrx::Uuid as PgUuid;

use super::tables::{AuditColumns, AuditRow, AuditTables};
use crate::kernel::direct;
use crate::kernel::direct::layouts::AUDIT_LOG;
use crate::kernel::tables::Local;
use pg::clock::Moment;
use pg::direct::Table;
use pg::query::{Arguments, query, record, scan};
use pg::settings::under;
use pg::spi::Connection;

query! {
    fn insert(; ..new: AuditColumns) = [Statement Anywhere]
        "INSERT INTO claims.audit_log (at, id, cell_id, what, lease_uuid, session_role, client_address, application_name, ops, bucket_types,
                                  bucket_values, conflict, subjects, sources, old_subjects, old_sources, context, cell_role, search_keys, old_cell_id)
         VALUES (:at, :id, :cell_id, :what, :lease_uuid, :session_role, :client_address, :application_name, :ops, :bucket_types,
                 :bucket_values, :conflict, :subjects, :sources, :old_subjects, :old_sources, :context, :cell_role, :search_keys, :old_cell_id)";
    /// Inserts events that were described by JSON objects. Their times are microseconds since 2000.
    pub fn record_described(described: &[String]) = [Statement Anywhere]
        "INSERT INTO claims.audit_log (at, id, cell_id, what, lease_uuid, session_role, client_address, application_name, ops, bucket_types,
                                       bucket_values, conflict, subjects, sources, old_subjects, old_sources, context, cell_role, search_keys)
         SELECT '2000-01-01 00:00:00+00'::timestamptz + r.at_us * interval '1 microsecond', r.id, r.cell_id, r.what, r.lease_uuid,
                coalesce(r.session_role, ''), r.client_address, coalesce(r.application_name, ''), coalesce(r.ops, '{}'),
                coalesce(r.bucket_types, '{}'), coalesce(r.bucket_values, '{}'), r.conflict,
                r.subjects, r.sources, r.old_subjects, r.old_sources, r.context, r.cell_role, coalesce(r.search_keys, '{}')
           FROM unnest(:described) AS d (described)
          CROSS JOIN LATERAL jsonb_to_record(d.described::jsonb)
                    AS r (at_us bigint, id bigint, cell_id bigint, what text, lease_uuid uuid, session_role text, client_address inet,
                          application_name text, ops text[], bucket_types text[], bucket_values text[], conflict jsonb, subjects text[], sources text[], old_subjects text[],
                          old_sources text[], context text, cell_role text, search_keys bigint[])";
    /// Merges the pending entries of the index on search keys, if it is there.
    pub fn merge_search_keys() = [Statement Anywhere] "SELECT gin_clean_pending_list(to_regclass('claims.audit_log_search'))";
    /// Deletes at most `most` events from `before` or earlier, oldest first. Returns their number.
    pub fn purge(before: Moment, most: i64) -> usize = [Statement Anywhere]
        "WITH old AS MATERIALIZED (
             SELECT a.at, a.id FROM claims.audit_log a WHERE a.at <= :before ORDER BY a.at, a.id LIMIT :most FOR UPDATE SKIP LOCKED)
         DELETE FROM claims.audit_log a USING old o WHERE (a.at, a.id) = (o.at, o.id)";
}

record! {
    /// A change of a name, from the audit log.
    pub struct AuditedEvent {
        pub at: Moment,
        pub id: i64,
        /// The position of the name in its row, from 1.
        pub nth: i64,
        pub op: String,
        pub cell_id: Option<i64>,
        /// The cell that had the name before, if it has gone from one cell to another.
        pub old_cell_id: Option<i64>,
        /// The first name of the type.
        pub bucket_type: String,
        pub bucket_value: String,
        pub lease_uuid: Option<PgUuid>,
        pub session_role: String,
        pub context: Option<String>,
        pub cell_role: Option<String>,
        pub subject: Option<String>,
        pub old_subject: Option<String>,
    }
}

/// Changes that happened, from the rows with a search key. The rows are found by that index before anything is sorted: an ordered search with a
/// limit would read the whole log for a rare key.
macro_rules! events {
    ($rows:literal, $names:literal, $order:literal) => {
        concat!(
            "WITH found AS MATERIALIZED (
                 SELECT a.at, a.id, a.cell_id, a.old_cell_id, a.lease_uuid, a.session_role, a.context, a.cell_role, a.ops, a.bucket_types,
                        a.bucket_values, a.subjects, a.old_subjects
                   FROM claims.audit_log a
                  WHERE a.search_keys @> ARRAY[:search_key] AND a.what IN ('committed', 'imported', 'corrected', 'released', 'transferred', 'handed_over', 'quarantine_released')", $rows, ")
             SELECT f.at, f.id, n.nth, n.op, f.cell_id, f.old_cell_id, n.bucket_type, n.bucket_value, f.lease_uuid, f.session_role, f.context,
                    f.cell_role, n.subject, n.old_subject
               FROM found f
              CROSS JOIN LATERAL unnest(f.ops, f.bucket_types, f.bucket_values, f.subjects, f.old_subjects) WITH ORDINALITY
                    AS n (op, bucket_type, bucket_value, subject, old_subject, nth)
              WHERE ", $names, " ORDER BY ", $order
        )
    };
}

scan! {
    /// Passes at most `most` changes of a subject's names before an event, newest first.
    fn events_of_subject(search_key: i64, subject: &str, at: Moment, id: i64, nth: i64, most: i64) -> AuditedEvent = [Caller] events!(
        " AND a.at <= :at", "(n.subject = :subject OR n.old_subject = :subject) AND (f.at, f.id, n.nth) < (:at, :id, :nth)",
        "f.at DESC, f.id DESC, n.nth DESC LIMIT :most");
    /// Passes the changes of a name's owner, oldest first.
    fn events_of_name(search_key: i64, type_name: &str, value: &str) -> AuditedEvent = [Caller] events!(
        "", "n.bucket_type = :type_name AND n.bucket_value = :value AND n.op <> 'release'", "f.at, f.id, n.nth");
}

/// The position of an event in a history.
#[derive(Debug, Clone, Copy)]
pub struct EventPlace {
    pub at: Moment,
    pub id: i64,
    pub nth: i64,
}

/// Returns at most `most` changes of a subject's names before a position, newest first. `described` is the subject as the log has it.
pub fn of_subject(
    connection: &Connection,
    search_key: i64,
    described: &str,
    before: EventPlace,
    most: i64,
) -> Vec<AuditedEvent> {
    let mut events = Vec::new();
    let EventPlace { at, id, nth } = before;
    let read =
        || events_of_subject(connection, search_key, described, at, id, nth, most, &mut |event| events.push(event));
    by_search_key(read);
    events
}

/// Returns the changes of a name, oldest first.
pub fn of_name(connection: &Connection, search_key: i64, type_name: &str, value: &str) -> Vec<AuditedEvent> {
    let mut events = Vec::new();
    by_search_key(|| events_of_name(connection, search_key, type_name, value, &mut |event| events.push(event)));
    events
}

/// Has the planner use the index on the search keys, whatever the statistics and the session's settings are.
fn by_search_key<T>(read: impl FnOnce() -> T) -> T {
    under(&[(c"enable_seqscan", c"off"), (c"enable_bitmapscan", c"on")], read)
}

/// Inserts events.
pub fn record(connection: &Connection, rows: &[AuditRow]) {
    for row in rows {
        insert(connection, row.columns());
    }
}

impl AuditTables for Local {
    fn record_audit(&self, connection: &Connection, rows: &[AuditRow]) {
        let insert = |[table]: [&Table; 1]| rows.iter().for_each(|row| table.insert(&row.columns().values()));
        if direct::open([&AUDIT_LOG], insert).is_none() {
            record(connection, rows);
        }
    }
}
