//! Statements on the audit log.

use crate::tables::rows::audit::{AuditColumns, AuditRow};
use pg::clock::Moment;
use pg::query::query;
use pg::spi::Connection;

query! {
    fn insert(; ..new: AuditColumns) = [Statement Anywhere]
        "INSERT INTO claims.audit_log (at, id, cell_id, what, lease_uuid, session_role, client_address, application_name, ops, bucket_types,
                                       bucket_values, conflict)
         VALUES (:at, :id, :cell_id, :what, :lease_uuid, :session_role, :client_address, :application_name, :ops, :bucket_types,
                 :bucket_values, :conflict)";
    /// Inserts events that were described by JSON objects. Their times are microseconds since 2000.
    pub fn record_described(described: &[String]) = [Statement Anywhere]
        "INSERT INTO claims.audit_log (at, id, cell_id, what, lease_uuid, session_role, client_address, application_name, ops, bucket_types,
                                       bucket_values, conflict)
         SELECT '2000-01-01 00:00:00+00'::timestamptz + r.at_us * interval '1 microsecond', r.id, r.cell_id, r.what, r.lease_uuid,
                coalesce(r.session_role, ''), r.client_address, coalesce(r.application_name, ''), coalesce(r.ops, '{}'),
                coalesce(r.bucket_types, '{}'), coalesce(r.bucket_values, '{}'), r.conflict
           FROM unnest(:described) AS d (described)
          CROSS JOIN LATERAL jsonb_to_record(d.described::jsonb)
                    AS r (at_us bigint, id bigint, cell_id bigint, what text, lease_uuid uuid, session_role text, client_address inet,
                          application_name text, ops text[], bucket_types text[], bucket_values text[], conflict jsonb)";
    /// Deletes at most `most` events from `before` or earlier, oldest first. Returns their number.
    pub fn purge(before: Moment, most: i64) -> usize = [Statement Anywhere]
        "WITH old AS MATERIALIZED (
             SELECT a.at, a.id FROM claims.audit_log a WHERE a.at <= :before ORDER BY a.at, a.id LIMIT :most FOR UPDATE SKIP LOCKED)
         DELETE FROM claims.audit_log a USING old o WHERE (a.at, a.id) = (o.at, o.id)";
}

/// Inserts events.
pub fn record(connection: &Connection, rows: &[AuditRow]) {
    for row in rows {
        insert(connection, row.columns());
    }
}
