//! Statements on the positions at which verifications stopped because of max_runtime.

use pg::spi::{Connection, View};
use pg::statement::statement;

statement! {
    POSITION(INT8OID, TEXTOID, TEXTOID) =
        "SELECT p.source_id FROM claims.verification_positions p WHERE p.cell_id = $1 AND p.service = $2 AND p.source_type = $3";
    STORE(INT8OID, TEXTOID, TEXTOID, TEXTOID) =
        "INSERT INTO claims.verification_positions AS p (cell_id, service, source_type, source_id) VALUES ($1, $2, $3, $4)
         ON CONFLICT (cell_id, service, source_type) DO UPDATE SET source_id = excluded.source_id, stopped_at = clock_timestamp()";
    FORGET(INT8OID, TEXTOID, TEXTOID) =
        "DELETE FROM claims.verification_positions p WHERE p.cell_id = $1 AND p.service = $2 AND p.source_type = $3";
}

/// The claims of a cell from one source type at a service.
#[derive(Clone, Copy)]
pub struct Walked<'w> {
    pub cell_id: i64,
    pub service: &'w str,
    pub source_type: &'w str,
}

/// Returns the source id up to which the last call has verified everything. `None`: start at the beginning.
pub fn position(connection: &Connection, Walked { cell_id, service, source_type }: Walked) -> Option<String> {
    let rows = connection.run(&POSITION, View::Latest, [cell_id.into(), service.into(), source_type.into()]);
    rows.first(|row| row.must(1))
}

/// Stores the position at which a call stopped. `None` deletes it: the next call starts at the beginning.
pub fn store(connection: &Connection, walked: Walked, source_id: Option<&str>) {
    let Walked { cell_id, service, source_type } = walked;
    match source_id {
        Some(source_id) => {
            let values = [cell_id.into(), service.into(), source_type.into(), source_id.into()];
            connection.run(&STORE, View::Statement, values)
        }
        None => connection.run(&FORGET, View::Statement, [cell_id.into(), service.into(), source_type.into()]),
    };
}
