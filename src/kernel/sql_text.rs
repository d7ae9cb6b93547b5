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

/// The word of the session about who acts: the columns context and cell_role of a row that a statement writes.
macro_rules! said {
    () => {
        "NULLIF(current_setting('claims.context', true), ''), NULLIF(current_setting('claims.cell_role', true), '')"
    };
}

/// Whether a lease `l` is to create a claim for a transfer. Ids of subjects are compared without their types: a lease more is only waited for.
/// Citus deparses the join in this order only.
macro_rules! creates_for_transfer {
    () => {
        "(:is_whole OR EXISTS (SELECT FROM claims.transfer_subjects s
                                CROSS JOIN LATERAL jsonb_array_elements(l.payload -> 'create_records') AS r (record)
                                WHERE s.transfer_uuid = :transfer AND s.subject_id = r.record #>> '{subject,id}'))"
    };
}

pub(crate) use {creates_for_transfer, is_row, said};
