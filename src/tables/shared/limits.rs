//! Statements on the limits of cells.

use pg::clock::Moment;
use pg::spi::{Connection, Value, View};
use pg::statement::shared_statement;

shared_statement! {
    ALL() = "SELECT l.cell_id, l.max_outstanding, l.max_batch_size, l.begins_per_second, l.max_priority, l.refusals_per_second
           FROM claims.limit_settings l";
    SET(INT8OID, INT4OID, INT4OID, INT4OID, INT4OID, TEXTOID, TEXTOID, INT4OID) =
        "INSERT INTO claims.limit_settings AS l (cell_id, max_outstanding, max_batch_size, begins_per_second, max_priority, reason, role,
                                                 refusals_per_second)
         VALUES ($1, $2, $3, $4, $5, $6, $7::name, $8)
         ON CONFLICT (cell_id) DO UPDATE
         SET max_outstanding = excluded.max_outstanding, max_batch_size = excluded.max_batch_size,
             begins_per_second = excluded.begins_per_second, max_priority = excluded.max_priority,
             refusals_per_second = excluded.refusals_per_second, reason = excluded.reason, role = excluded.role, since = excluded.since";
    /// Counts the outstanding leases of cell $1, up to $2. None of them is from before $3.
    OUTSTANDING(INT8OID, INT8OID, TIMESTAMPTZOID) =
        "SELECT count(*) FROM (SELECT 1 FROM claims.claim_leases l WHERE l.creator_id = $1 AND l.created_at >= $3 LIMIT $2) AS found";
}

/// The limits of a cell. `None` means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CellLimits {
    pub max_outstanding: Option<i32>,
    pub max_batch_size: Option<i32>,
    pub begins_per_second: Option<i32>,
    /// The highest `claims.lease_priority` of its sessions; `None` means 0.
    pub max_priority: Option<i32>,
    /// The most fences and denied calls a second that have rows in the audit log; `None` means [`REFUSALS_PER_SECOND`].
    pub refusals_per_second: Option<i32>,
}

/// The most fences and denied calls a second that have rows in the audit log, of a cell without a limit of its own, and of all calls
/// that name no cell.
pub const REFUSALS_PER_SECOND: i32 = 100;

pub fn all(connection: &Connection) -> Vec<(i64, CellLimits)> {
    connection.run(&ALL, View::Latest, []).map(|row| {
        let (max_outstanding, max_batch_size) = (row.get(2), row.get(3));
        let (begins_per_second, max_priority) = (row.get(4), row.get(5));
        let refusals_per_second = row.get(6);
        let limits =
            CellLimits { max_outstanding, max_batch_size, begins_per_second, max_priority, refusals_per_second };
        (row.must(1), limits)
    })
}

/// Sets the limits of a cell. Waits for another transaction that sets them.
pub fn set(connection: &Connection, cell_id: i64, limits: CellLimits, reason: &str, role: &str) {
    let CellLimits { max_outstanding, max_batch_size, begins_per_second, max_priority, refusals_per_second } = limits;
    let values = [
        cell_id.into(),
        max_outstanding.into(),
        max_batch_size.into(),
        begins_per_second.into(),
        max_priority.into(),
        reason.into(),
        role.into(),
        refusals_per_second.into(),
    ];
    connection.run(&SET, View::Statement, values);
}

/// Returns the number of a cell's outstanding leases now, up to `at_most`.
pub fn outstanding(connection: &Connection, cell_id: i64, from: Moment, at_most: i64) -> i64 {
    let values: [Value; 3] = [cell_id.into(), at_most.into(), from.into()];
    connection.run(&OUTSTANDING, View::Latest, values).first(|row| row.must(1)).unwrap_or(0)
}
