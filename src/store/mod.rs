//! All SQL that Rust runs, and the caches of it, by side. Definitions are in `sql/install`.

/// Says that two columns, those of a unique index, have the values of a row that is joined with, in words for which there
/// is one plan: the index, looked up once for each row of the other side. Plain equality also fits a scan of the whole
/// index on the outside of a loop, which the planner prefers where it believes the table to be small. Both values must be columns of the other side (OFFSET 0
/// makes a parameter one): a condition on the table alone would offer that scan again.
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
