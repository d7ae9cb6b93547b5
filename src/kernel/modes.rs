//! Statements on modes.

use claims_model::mode::Mode;

use pg::clock::Moment;
use pg::query::{Record, query, record};
use pg::spi::{Connection, Row};

record! {
    struct ModeRow { cell_id: i64, mode: String, reason: String, since: Moment, role: String }
}

query! {
    /// Returns all modes that were set. An unknown mode counts as the strictest one.
    pub fn all() -> Vec<ModeSetting> = [Latest Anywhere]
        "SELECT m.cell_id, m.mode, m.reason, m.since, m.role::text FROM claims.mode_settings m";
    fn put(cell_id: i64, mode: &str, reason: &str, role: &str) = [Statement Anywhere]
        "INSERT INTO claims.mode_settings AS m (cell_id, mode, reason, role) VALUES (:cell_id, :mode, :reason, :role::name)
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

impl Record for ModeSetting {
    fn read(row: &Row) -> Self {
        let ModeRow { cell_id, mode, reason, since, role } = ModeRow::read(row);
        let mode = Mode::named(&mode).unwrap_or(Mode::ReadOnly);
        ModeSetting { mode, cell_id: Some(cell_id).filter(|cell_id| *cell_id != EVERYBODY), reason, since, role }
    }
}

/// Sets the mode of a cell, or of all cells. Waits for another transaction that sets the same one.
pub fn set(connection: &Connection, cell_id: Option<i64>, mode: Mode, reason: &str, role: &str) {
    put(connection, cell_id.unwrap_or(EVERYBODY), mode.name(), reason, role);
}
