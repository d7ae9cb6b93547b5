//! Writes the audit log without statements, if it is as the extension has created it.

use super::door::Local;
use crate::direct;
use crate::direct::layouts::AUDIT_LOG;
use crate::tables::door::AuditTables;
use crate::tables::rows::audit::{AuditRow, next_id};
use crate::tables::rows::transfers::Transfer;
use crate::tables::shared::audit;
use claims_model::Types;
use pg::direct::Table;
use pg::spi::{Connection, Value, View};
use pg::statement::statement;
use pg::uuid::pg_uuid;

statement! {
    /// Records that transfer $1 has moved the claims of cell $2 that it holds. $3 and $4 are the types and their names, the others the
    /// columns. The rows have the same id, and different times.
    RECORD_MOVED(UUIDOID, INT8OID, INT4ARRAYOID, TEXTARRAYOID, TIMESTAMPTZOID, INT8OID, INT8OID, TEXTOID, TEXTOID, INETOID, TEXTOID) =
        "INSERT INTO claims.audit_log (at, id, cell_id, what, lease_uuid, session_role, client_address, application_name, ops, bucket_types,
                                       bucket_values)
         SELECT $5 + n.portion * interval '1 microsecond', $6, $7, $8, $1, $9, $10, $11, array_agg('transfer'::text),
                array_agg(($4)[array_position($3, n.bucket_type)]), array_agg(n.bucket_value)
           FROM (SELECT c.bucket_type, c.bucket_value, (row_number() OVER () - 1) / 1000 AS portion FROM claims.claims c
                  WHERE c.creator_id = $2 AND c.status = 4 AND c.lease_uuid = $1) n
          GROUP BY n.portion";
}

impl AuditTables for Local {
    fn record_audit(&self, connection: &Connection, rows: &[AuditRow]) {
        let insert = |[table]: [&Table; 1]| rows.iter().for_each(|row| table.insert(&row.values()));
        if direct::open([&AUDIT_LOG], insert).is_none() {
            audit::record(connection, rows);
        }
    }

    fn audit_moved(&self, connection: &Connection, types: &Types, transfer: &Transfer, like: &AuditRow) {
        let (ids, names): (Vec<i32>, Vec<&str>) = types.bucket.first_names().unzip();
        let values: [Value; 11] = [
            pg_uuid(transfer.uuid).into(),
            transfer.from_cell.into(),
            ids.into(),
            names.into(),
            like.at.into(),
            next_id().into(),
            like.cell_id.into(),
            like.what.into(),
            like.actor.session_role.as_str().into(),
            like.actor.address.as_ref().map(|address| address.inet.clone()).into(),
            like.actor.application.as_str().into(),
        ];
        connection.run(&RECORD_MOVED, View::Statement, values);
    }
}
