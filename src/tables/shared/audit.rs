//! Statements on the audit log.

use crate::tables::rows::audit::AuditRow;
use pg::clock::Moment;
use pg::spi::{Connection, View};
use pg::statement::shared_statement;

shared_statement! {
    RECORD(TIMESTAMPTZOID, INT8OID, INT8OID, TEXTOID, UUIDOID, TEXTOID, INETOID, TEXTOID, TEXTARRAYOID, TEXTARRAYOID, TEXTARRAYOID, JSONBOID) =
        "INSERT INTO claims.audit_log (at, id, cell_id, what, lease_uuid, session_role, client_address, application_name, ops, bucket_types,
                                       bucket_values, conflict)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
    /// Inserts events that were described by JSON objects. Their times are microseconds since 2000.
    RECORD_DESCRIBED(TEXTARRAYOID) =
        "INSERT INTO claims.audit_log (at, id, cell_id, what, lease_uuid, session_role, client_address, application_name, ops, bucket_types,
                                       bucket_values, conflict)
         SELECT '2000-01-01 00:00:00+00'::timestamptz + r.at_us * interval '1 microsecond', r.id, r.cell_id, r.what, r.lease_uuid,
                coalesce(r.session_role, ''), r.client_address, coalesce(r.application_name, ''), coalesce(r.ops, '{}'),
                coalesce(r.bucket_types, '{}'), coalesce(r.bucket_values, '{}'), r.conflict
           FROM unnest($1) AS d (described)
          CROSS JOIN LATERAL jsonb_to_record(d.described::jsonb)
                    AS r (at_us bigint, id bigint, cell_id bigint, what text, lease_uuid uuid, session_role text, client_address inet,
                          application_name text, ops text[], bucket_types text[], bucket_values text[], conflict jsonb)";
    /// Deletes up to $2 events from $1 or earlier, oldest first.
    PURGE(TIMESTAMPTZOID, INT8OID) =
        "WITH old AS MATERIALIZED (
             SELECT a.at, a.id FROM claims.audit_log a WHERE a.at <= $1 ORDER BY a.at, a.id LIMIT $2 FOR UPDATE SKIP LOCKED)
         DELETE FROM claims.audit_log a USING old o WHERE (a.at, a.id) = (o.at, o.id)";
}

/// Inserts events.
pub fn record(connection: &Connection, rows: &[AuditRow]) {
    for row in rows {
        connection.run(&RECORD, View::Statement, row.values());
    }
}

/// Inserts events that were described by JSON objects.
pub fn record_described(connection: &Connection, described: Vec<String>) {
    connection.run(&RECORD_DESCRIBED, View::Statement, [described.into()]);
}

/// Deletes at most `limit` events from `before` or earlier. Returns their number.
pub fn purge(connection: &Connection, before: Moment, limit: i64) -> usize {
    connection.run(&PURGE, View::Statement, [before.into(), limit.into()]).count()
}
