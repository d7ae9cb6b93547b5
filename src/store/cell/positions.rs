//! Statements on the positions at which verifications stopped because of max_runtime.

use crate::pg::spi::{Connection, View};
use crate::pg::statement::statement;

statement! {
    POSITION(INT8OID, TEXTOID) =
        "SELECT p.source_id FROM claims.verification_positions p WHERE p.cell_id = $1 AND p.source_type = $2";
    STORE(INT8OID, TEXTOID, TEXTOID) =
        "INSERT INTO claims.verification_positions AS p (cell_id, source_type, source_id) VALUES ($1, $2, $3)
         ON CONFLICT (cell_id, source_type) DO UPDATE SET source_id = excluded.source_id, stopped_at = clock_timestamp()";
    FORGET(INT8OID, TEXTOID) =
        "DELETE FROM claims.verification_positions p WHERE p.cell_id = $1 AND p.source_type = $2";
}

/// Returns the source id up to which the last call has verified everything. `None`: start at the beginning.
pub fn position(connection: &Connection, cell_id: i64, source_type: &str) -> Option<String> {
    let rows = connection.run(&POSITION, View::Latest, [cell_id.into(), source_type.into()]);
    rows.first(|row| row.must(1))
}

/// Stores the position at which a call stopped. `None` deletes it: the next call starts at the beginning.
pub fn store(connection: &Connection, cell_id: i64, source_type: &str, source_id: Option<&str>) {
    match source_id {
        Some(source_id) => {
            connection.run(&STORE, View::Statement, [cell_id.into(), source_type.into(), source_id.into()])
        }
        None => connection.run(&FORGET, View::Statement, [cell_id.into(), source_type.into()]),
    };
}
