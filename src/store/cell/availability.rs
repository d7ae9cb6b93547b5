//! Statements for questions about names.

use std::rc::Rc;

use claims_model::routes::Routes;
use pgrx::pg_sys::Oid;

use super::routes;
use pg::jsonb::Jsonb;
use pg::spi::{Connection, View};
use pg::statement::statement;

statement! {
    /// Returns the name and the row type of table $1, and whether role $3 may insert or update its column $2.
    COLUMN(OIDOID, TEXTOID, OIDOID) =
        "SELECT c.oid::regclass::text, c.reltype,
                has_schema_privilege($3, c.relnamespace, 'USAGE')
                AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = $2::name AND a.attnum > 0 AND NOT a.attisdropped
                               AND has_column_privilege($3, c.oid, a.attnum, 'INSERT, UPDATE'))
           FROM pg_class c WHERE c.oid = $1";
    /// Returns the cells that the worker attends to.
    ATTENDED() = "SELECT a.cell_id, a.service FROM claims.attended_cells a WHERE NOT a.by_type LIMIT 2";
    HOLDER_HERE(TEXTOID, TEXTOID) = "SELECT holder_cell_id, source_type, source_id FROM claims.name_holder($1, $2)";
    TEXT(JSONBOID) = "SELECT $1::text";
}

/// A column of a table.
pub struct AskedColumn {
    pub table: String,
    pub row_type: Oid,
    /// Whether the role may insert or update it. A column that does not exist can be written by nobody.
    pub may_be_written: bool,
}

/// Returns a column as a role sees it, or `None` if there is no such table.
pub fn column(connection: &Connection, table: Oid, attribute: &str, role: Oid) -> Option<AskedColumn> {
    let rows = connection.run(&COLUMN, View::Latest, [table.into(), attribute.into(), role.into()]);
    rows.first(|row| AskedColumn { table: row.must(1), row_type: row.must(2), may_be_written: row.must(3) })
}

/// Returns the routes of automatic mode. Types without a service in it, or all if it is off, have the one that the worker attends to, if
/// that is one cell.
pub fn routes(connection: &Connection) -> Option<Rc<Routes>> {
    let automatic = routes::automatic(connection);
    if automatic.as_ref().is_some_and(|routes| routes.others.is_some()) {
        return automatic;
    }
    let rows = connection.run(&ATTENDED, View::Latest, []);
    let attended: Vec<(i64, String)> = rows.map(|row| (row.must(1), row.must(2)));
    match attended.as_slice() {
        [(cell_id, service)] if automatic.as_ref().is_none_or(|routes| routes.cell_id == *cell_id) => {
            Some(Rc::new(Routes::of_call(automatic.as_deref(), *cell_id, service)))
        }
        _ => automatic,
    }
}

/// The claim or the reservation that prevents a cell from claiming a name in this database.
pub struct HolderHere {
    pub cell_id: Option<i64>,
    pub source_type: Option<String>,
    pub source_id: Option<String>,
}

/// Returns the holder of a name in this database, or `None` if the name is free.
pub fn holder_here(connection: &Connection, bucket_type: &str, name: &str) -> Option<HolderHere> {
    let rows = connection.run(&HOLDER_HERE, View::Latest, [bucket_type.into(), name.into()]);
    rows.first(|row| HolderHere { cell_id: row.get(1), source_type: row.get(2), source_id: row.get(3) })
}

/// Returns the text of a JSON value.
pub fn text(connection: &Connection, value: Jsonb) -> String {
    connection.run(&TEXT, View::Caller, [value.into()]).first(|row| row.must(1)).unwrap_or_default()
}
