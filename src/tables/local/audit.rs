//! Writes the audit log without statements, if it is as the extension has created it.

use super::door::Local;
use crate::direct;
use crate::direct::layouts::AUDIT_LOG;
use crate::tables::door::AuditTables;
use crate::tables::rows::audit::{AuditColumns, AuditRow};
use crate::tables::rows::transfers::Transfer;
use crate::tables::shared::audit;
use claims_model::Types;
use pg::clock::Moment;
use pg::direct::Table;
use pg::query::{Arguments, arguments, query};
use pg::spi::{Connection, Inet};
use uuid::Uuid;

arguments! {
    struct MovedColumns<'r> {
        at: Moment,
        id: i64,
        cell_id: i64,
        what: &'r str,
        session_role: &'r str,
        client_address: Option<Inet>,
        application_name: &'r str,
    }
}

query! {
    /// Records that a transfer has moved the claims stored under a cell that it holds. The rows have the same id, and different times.
    fn record_moved(transfer: Uuid, stored_as: i64, types: &[i32], type_names: &[&str]; ..like: MovedColumns) = [Statement]
        "INSERT INTO claims.audit_log (at, id, cell_id, what, lease_uuid, session_role, client_address, application_name, ops, bucket_types,
                                       bucket_values)
         SELECT :at + n.portion * interval '1 microsecond', :id, :cell_id, :what, :transfer, :session_role, :client_address, :application_name,
                array_agg('transfer'::text), array_agg((:type_names)[array_position(:types, n.bucket_type)]), array_agg(n.bucket_value)
           FROM (SELECT c.bucket_type, c.bucket_value, (row_number() OVER () - 1) / 1000 AS portion FROM claims.claims c
                  WHERE c.creator_id = :stored_as AND c.status = 4 AND c.lease_uuid = :transfer) n
          GROUP BY n.portion";
}

impl AuditTables for Local {
    fn record_audit(&self, connection: &Connection, rows: &[AuditRow]) {
        let insert = |[table]: [&Table; 1]| rows.iter().for_each(|row| table.insert(&row.columns().values()));
        if direct::open([&AUDIT_LOG], insert).is_none() {
            audit::record(connection, rows);
        }
    }

    fn audit_moved(&self, connection: &Connection, types: &Types, transfer: &Transfer, like: &AuditRow) {
        let (ids, names): (Vec<i32>, Vec<&str>) = types.bucket.first_names().unzip();
        let AuditColumns { at, id, cell_id, what, session_role, client_address, application_name, .. } = like.columns();
        let like = MovedColumns { at, id, cell_id, what, session_role, client_address, application_name };
        record_moved(connection, transfer.uuid, transfer.from_cell, &ids, &names, like);
    }
}
