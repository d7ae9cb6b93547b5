//! Fragments of SQL text that statements of several modules share.

/// Builds a join condition on the two columns of a unique index for which only one plan is possible: an index scan for
/// each row of the other side. With plain equality the planner could also scan the whole index as the outer side of a
/// nested loop, and would prefer that if it believes the table to be small. Both values must be columns of the other
/// side (OFFSET 0 makes a parameter one), because a condition on the table alone would allow that scan again.
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

/// What the session says about who acts: the columns context and cell_role of a row that a statement writes.
macro_rules! said {
    () => {
        "NULLIF(current_setting('claims.context', true), ''), NULLIF(current_setting('claims.cell_role', true), '')"
    };
}

pub(crate) use {is_row, said};
