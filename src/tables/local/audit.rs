//! Writes the audit log without statements, if it is as the extension has created it.

use super::door::Local;
use crate::pg::direct::{self, ColumnLayout, Identity, IndexKey, IndexLayout, Layout};
use crate::pg::spi::Connection;
use crate::tables::door::AuditTables;
use crate::tables::rows::audit::AuditRow;
use crate::tables::shared::audit;
use pgrx::pg_sys::{INETOID, INT8OID, JSONBOID, Oid, TEXTARRAYOID, TEXTOID, TIMESTAMPTZOID, UUIDOID};

const fn column(name: &'static std::ffi::CStr, type_oid: Oid, is_not_null: bool) -> ColumnLayout {
    ColumnLayout { name, type_oid, is_not_null, identity: Identity::No }
}

/// Administrators may add indexes to this table. Then it is written with statements.
static AUDIT_LOG: Layout = Layout {
    name: c"audit_log",
    columns: &[
        column(c"at", TIMESTAMPTZOID, true),
        column(c"id", INT8OID, true),
        column(c"cell_id", INT8OID, false),
        column(c"what", TEXTOID, true),
        column(c"lease_uuid", UUIDOID, false),
        column(c"session_role", TEXTOID, true),
        column(c"client_address", INETOID, false),
        column(c"application_name", TEXTOID, true),
        column(c"ops", TEXTARRAYOID, true),
        column(c"bucket_types", TEXTARRAYOID, true),
        column(c"bucket_values", TEXTARRAYOID, true),
        column(c"conflict", JSONBOID, false),
    ],
    indexes: &[IndexLayout { is_unique: true, keys: &[IndexKey::Column(0), IndexKey::Column(1)] }],
    may_have_more_indexes: true,
};

impl AuditTables for Local {
    fn record_audit(&self, connection: &Connection, rows: &[AuditRow]) {
        let insert = |[table]: [&direct::Table; 1]| rows.iter().for_each(|row| table.insert(&row.values()));
        if direct::open([&AUDIT_LOG], insert).is_none() {
            audit::record(connection, rows);
        }
    }
}
