//! Statements on the limits of cells.

use crate::pg::clock::Moment;
use crate::pg::spi::{Connection, Value, View};
use crate::pg::statement::shared_statement;

shared_statement! {
    ALL() = "SELECT l.cell_id, l.max_outstanding, l.max_batch_size, l.begins_per_second FROM claims.limit_settings l";
    SET(INT8OID, INT4OID, INT4OID, INT4OID, TEXTOID, TEXTOID) =
        "INSERT INTO claims.limit_settings AS l (cell_id, max_outstanding, max_batch_size, begins_per_second, reason, role)
         VALUES ($1, $2, $3, $4, $5, $6::name)
         ON CONFLICT (cell_id) DO UPDATE
         SET max_outstanding = excluded.max_outstanding, max_batch_size = excluded.max_batch_size,
             begins_per_second = excluded.begins_per_second, reason = excluded.reason, role = excluded.role, since = excluded.since";
    /// On the node that keeps the change feed, which counts for all where the tables are spread.
    KEEP_PACE(INT8OID, INT4OID) = "SELECT claims.keep_pace($1, $2) FROM claims.change_horizon h";
    /// How many leases cell $1 has outstanding, as far as $2; none is from before $3.
    OUTSTANDING(INT8OID, INT8OID, TIMESTAMPTZOID) =
        "SELECT count(*) FROM (SELECT 1 FROM claims.claim_leases l WHERE l.creator_id = $1 AND l.created_at >= $3 LIMIT $2) AS found";
}

/// What a cell may at most; `None`: anything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CellLimits {
    pub max_outstanding: Option<i32>,
    pub max_batch_size: Option<i32>,
    pub begins_per_second: Option<i32>,
}

/// The limits of all cells that have some.
pub fn all(connection: &Connection) -> Vec<(i64, CellLimits)> {
    connection.run(&ALL, View::Latest, []).map(|row| {
        let (max_outstanding, max_batch_size) = (row.get(2), row.get(3));
        (row.must(1), CellLimits { max_outstanding, max_batch_size, begins_per_second: row.get(4) })
    })
}

/// Sets the limits of a cell. Waits for another one who is setting them.
pub fn set(connection: &Connection, cell_id: i64, limits: CellLimits, reason: &str, role: &str) {
    let CellLimits { max_outstanding, max_batch_size, begins_per_second } = limits;
    let values = [
        cell_id.into(),
        max_outstanding.into(),
        max_batch_size.into(),
        begins_per_second.into(),
        reason.into(),
        role.into(),
    ];
    connection.run(&SET, View::Statement, values);
}

/// How many leases of a cell are outstanding right now, as far as is worth knowing.
pub fn outstanding(connection: &Connection, cell_id: i64, from: Moment, at_most: i64) -> i64 {
    let values: [Value; 3] = [cell_id.into(), at_most.into(), from.into()];
    connection.run(&OUTSTANDING, View::Latest, values).first(|row| row.must(1)).unwrap_or(0)
}

/// Asks the node that counts for all, where the tables are spread, whether a cell may begin: 0, or from which moment on it may, in
/// microseconds. `None`: nothing is counted there.
pub fn asked_for_pace(connection: &Connection, cell_id: i64, per_second: Option<i32>) -> Option<i64> {
    let values: [Value; 2] = [cell_id.into(), per_second.into()];
    connection.run(&KEEP_PACE, View::Latest, values).first(|row| row.get(1)).flatten()
}
