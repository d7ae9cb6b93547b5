//! All SQL that Rust runs, and the caches of it. Definitions are in `sql/install`.

/// Says that the columns of a unique index have the given values, in a join, so that there is one plan for it: the index,
/// looked up once for each row of the other side. A plain equality also fits a scan of the whole index on the outside of
/// a loop, which the planner prefers where it believes the table to be small.
macro_rules! is_row {
    ($columns:literal, $values:literal) => {
        concat!("(", $columns, ") >= (", $values, ") AND (", $columns, ") <= (", $values, ")")
    };
}

pub mod catalog;
pub mod claims;
pub mod expiring;
pub mod leases;
pub mod records;
pub mod requests;
