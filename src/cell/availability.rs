//! Statements for questions about names.

use std::rc::Rc;

use claims_model::routes::Routes;
use pgrx::pg_sys::Oid;

use super::routes;
use pg::jsonb::Jsonb;
use pg::query::{query, record};
use pg::spi::Connection;

record! {
    /// A column of a table.
    pub struct AskedColumn {
        pub table_name: String,
        pub row_type: Oid,
        /// Whether the role may insert or update it. A column that does not exist can be written by nobody.
        pub may_be_written: bool,
    }

    struct AttendedRow {
        cell_id: i64,
        service: String,
    }
}

query! {
    /// Returns a column as a role sees it, or `None` if there is no such table.
    pub fn column(table: Oid, attribute: &str, role: Oid) -> Option<AskedColumn> = [Latest]
        "SELECT c.oid::regclass::text AS table_name, c.reltype AS row_type,
                has_schema_privilege(:role, c.relnamespace, 'USAGE')
                AND EXISTS (SELECT FROM pg_attribute a
                             WHERE a.attrelid = c.oid AND a.attname = :attribute::name AND a.attnum > 0 AND NOT a.attisdropped
                               AND has_column_privilege(:role, c.oid, a.attnum, 'INSERT, UPDATE')) AS may_be_written
           FROM pg_class c WHERE c.oid = :table";
    /// Returns the cells that the worker attends to, at most two.
    fn attended() -> Vec<AttendedRow> = [Latest]
        "SELECT a.cell_id, a.service FROM claims.attended_cells a WHERE NOT a.by_type LIMIT 2";
    fn text_of(value: Jsonb) -> Option<String> = [Caller] "SELECT :value::text";
}

/// Returns the routes of automatic mode. Types without a service in it, or all if it is off, have the one that the worker attends to, if
/// that is one cell.
pub fn routes(connection: &Connection) -> Option<Rc<Routes>> {
    let automatic = routes::automatic(connection);
    if automatic.as_ref().is_some_and(|routes| routes.others.is_some()) {
        return automatic;
    }
    match attended(connection).as_slice() {
        [AttendedRow { cell_id, service }] if automatic.as_ref().is_none_or(|routes| routes.cell_id == *cell_id) => {
            Some(Rc::new(Routes::of_call(automatic.as_deref(), *cell_id, service)))
        }
        _ => automatic,
    }
}

/// Returns the text of a JSON value.
pub fn text(connection: &Connection, value: Jsonb) -> String {
    text_of(connection, value).unwrap_or_default()
}
