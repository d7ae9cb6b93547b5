//! Writes and purges the audit log. In this database it is written without statements, if it is as the extension has created it.

use super::tables::{AuditColumns, AuditRow, AuditTables};
use crate::kernel::direct;
use crate::kernel::direct::layouts::AUDIT_LOG;
use crate::kernel::tables::Local;
use pg::clock::Moment;
use pg::direct::Table;
use pg::query::{Arguments, query};
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

impl AuditTables for Local {
    fn record_audit(&self, connection: &Connection, rows: &[AuditRow]) {
        let insert = |[table]: [&Table; 1]| rows.iter().for_each(|row| table.insert(&row.columns().values()));
        if direct::open([&AUDIT_LOG], insert).is_none() {
            record(connection, rows);
        }
    }
}
