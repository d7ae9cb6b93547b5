//! Statements on the limits of cells.

use pg::clock::Moment;
use pg::query::{Record, query, record};
use pg::spi::{Connection, Row};

query! {
    fn rows() -> Vec<LimitsOfCell> = [Latest Anywhere]
        "SELECT l.max_outstanding, l.max_batch_size, l.begins_per_second, l.max_priority, l.refusals_per_second, l.cell_id
           FROM claims.limit_settings l";
    fn put(
        cell_id: i64, max_outstanding: Option<i32>, max_batch_size: Option<i32>, begins_per_second: Option<i32>, max_priority: Option<i32>,
        reason: &str, role: &str, refusals_per_second: Option<i32>,
    ) = [Statement Anywhere]
        "INSERT INTO claims.limit_settings AS l (cell_id, max_outstanding, max_batch_size, begins_per_second, max_priority, reason, role,
                                                 refusals_per_second)
         VALUES (:cell_id, :max_outstanding, :max_batch_size, :begins_per_second, :max_priority, :reason, :role::name, :refusals_per_second)
         ON CONFLICT (cell_id) DO UPDATE
         SET max_outstanding = excluded.max_outstanding, max_batch_size = excluded.max_batch_size,
             begins_per_second = excluded.begins_per_second, max_priority = excluded.max_priority,
             refusals_per_second = excluded.refusals_per_second, reason = excluded.reason, role = excluded.role, since = excluded.since";
    /// Returns the number of a cell's outstanding leases now, up to `most`. None of them is from before `from`.
    pub fn outstanding(cell_id: i64, from: Moment, most: i64) -> i64 = [Latest Anywhere]
        "SELECT count(*)
           FROM (SELECT 1 FROM claims.claim_leases l WHERE l.creator_id = :cell_id AND l.created_at >= :from LIMIT :most) AS found";
}

record! {
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
}

struct LimitsOfCell(i64, CellLimits);

impl Record for LimitsOfCell {
    fn read(row: &Row) -> Self {
        let limits = CellLimits::read(row);
        LimitsOfCell(row.field("cell_id", &mut (6..)), limits)
    }
}

/// The most fences and denied calls a second that have rows in the audit log, of a cell without a limit of its own, and of all calls
/// that name no cell.
pub const REFUSALS_PER_SECOND: i32 = 100;

pub fn all(connection: &Connection) -> Vec<(i64, CellLimits)> {
    rows(connection).into_iter().map(|LimitsOfCell(cell_id, limits)| (cell_id, limits)).collect()
}

/// Sets the limits of a cell. Waits for another transaction that sets them.
pub fn set(connection: &Connection, cell_id: i64, limits: CellLimits, reason: &str, role: &str) {
    let CellLimits { max_outstanding, max_batch_size, begins_per_second, max_priority, refusals_per_second } = limits;
    let (most, batch, begins) = (max_outstanding, max_batch_size, begins_per_second);
    put(connection, cell_id, most, batch, begins, max_priority, reason, role, refusals_per_second);
}
