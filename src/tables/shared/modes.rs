//! Statements on modes.

use claims_model::mode::Mode;

use pg::clock::Moment;
use pg::spi::{Connection, View};
use pg::statement::shared_statement;

shared_statement! {
    ALL() = "SELECT m.cell_id, m.mode, m.reason, m.since, m.role::text FROM claims.mode_settings m";
    SET(INT8OID, TEXTOID, TEXTOID, TEXTOID) =
        "INSERT INTO claims.mode_settings AS m (cell_id, mode, reason, role) VALUES ($1, $2, $3, $4::name)
         ON CONFLICT (cell_id) DO UPDATE
         SET mode = excluded.mode, reason = excluded.reason, role = excluded.role, since = excluded.since";
}

/// Stands for all cells in the column of cell ids.
pub const EVERYBODY: i64 = -1;

pub struct ModeSetting {
    pub mode: Mode,
    /// `None` for all cells.
    pub cell_id: Option<i64>,
    pub reason: String,
    pub since: Moment,
    pub role: String,
}

/// Returns all modes that were set. An unknown mode counts as the strictest one.
pub fn all(connection: &Connection) -> Vec<ModeSetting> {
    connection.run(&ALL, View::Latest, []).map(|row| ModeSetting {
        cell_id: Some(row.must(1)).filter(|cell_id| *cell_id != EVERYBODY),
        mode: Mode::named(&row.must::<String>(2)).unwrap_or(Mode::ReadOnly),
        reason: row.must(3),
        since: row.must(4),
        role: row.must(5),
    })
}

/// Sets the mode of a cell, or of all cells. Waits for another transaction that sets the same one.
pub fn set(connection: &Connection, cell_id: Option<i64>, mode: Mode, reason: &str, role: &str) {
    let cell_id = cell_id.unwrap_or(EVERYBODY);
    connection.run(&SET, View::Statement, [cell_id.into(), mode.name().into(), reason.into(), role.into()]);
}
