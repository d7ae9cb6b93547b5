//! All SQL that Rust runs, and the caches of it, by side. Definitions are in `sql/install`.

/// A join condition on the two columns of a unique index, worded so that only one plan remains: an index look-up for each
/// row of the other side. With plain equality the planner could also scan the whole index as the outer side of a loop, and
/// prefers that if it believes the table to be small. Both values must be columns of the other side (OFFSET 0
/// makes a parameter one): a condition on the table alone would allow that scan again.
macro_rules! is_row {
    ($first:literal, $second:literal, $first_value:literal, $second_value:literal) => {
        concat!(
            $first,
            " = ANY (ARRAY[",
            $first_value,
            "]) AND ",
            $second,
            " >= ",
            $second_value,
            " AND ",
            $second,
            " <= ",
            $second_value
        )
    };
}

/// The cell of a claim `c` as every read tells it: where a transfer holds the claim, the cell that the transfer's row says. Both rows
/// are read under one snapshot, and the transfer's only for such claims.
macro_rules! claim_cell {
    () => {
        "CASE WHEN c.status = 4
              THEN coalesce((SELECT t.cell_id FROM claims.cell_transfers t WHERE t.transfer_uuid = c.lease_uuid), c.creator_id)
              ELSE c.creator_id END"
    };
}

/// Of a claim that a transfer holds: the other one of its two cells.
macro_rules! other_cell {
    () => {
        "CASE WHEN c.status = 4
              THEN (SELECT CASE t.cell_id WHEN t.from_cell THEN t.to_cell ELSE t.from_cell END
                      FROM claims.cell_transfers t WHERE t.transfer_uuid = c.lease_uuid) END"
    };
}

/// A claim `c` that is stored as cell $1's is at that cell: no transfer has brought it to another one. Which ones have is asked
/// once, not for each claim.
macro_rules! at_home {
    () => {
        "(c.status <> 4
          OR (c.lease_uuid <> ALL (ARRAY(SELECT t.transfer_uuid FROM claims.cell_transfers t
                                          WHERE t.from_cell = $1 AND t.cell_id <> t.from_cell AND t.ended_at IS NULL))) IS NOT FALSE)"
    };
}

/// Transfers whose claims are cell $1's and stored as another one's, as `t`. OFFSET 0 keeps the planner from beginning with the
/// claims.
macro_rules! arrived {
    () => {
        "(SELECT t.transfer_uuid, t.from_cell FROM claims.cell_transfers t
           WHERE t.cell_id = $1 AND t.cell_id <> t.from_cell AND t.ended_at IS NULL OFFSET 0) t"
    };
}

/// A claim `c` is one of those that transfer `t` has brought.
macro_rules! brought {
    () => {
        "c.creator_id = t.from_cell AND c.status = 4 AND c.lease_uuid = t.transfer_uuid"
    };
}

pub mod admin_log;
pub mod catalog;
pub mod cell;
pub mod holds;
pub mod pass_log;
pub mod service;
pub mod worker;
