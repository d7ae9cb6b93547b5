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

pub mod admin_log;
pub mod catalog;
pub mod cell;
pub mod holds;
pub mod pass_log;
pub mod service;
pub mod worker;
