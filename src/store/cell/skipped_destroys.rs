//! Counters of destroys that capture has skipped and of claims that it has adopted. They are sequences, so that sessions do not
//! wait for each other.

use claims_model::outgoing::SkippedDestroys;

use pg::spi::{Connection, View};
use pg::statement::statement;

statement! {
    /// Advances sequence $1 by $2.
    COUNT(TEXTOID, INT8OID) = "SELECT max(nextval($1::regclass)) FROM generate_series(1::bigint, $2)";
}

/// Adds the counts of one batch.
pub fn count(connection: &Connection, skipped: SkippedDestroys) {
    let SkippedDestroys { missing, not_owner, other_source, adopted } = skipped;
    let counts = [
        ("claims.capture_left_out_missing", missing),
        ("claims.capture_left_out_not_owner", not_owner),
        ("claims.capture_left_out_other_source", other_source),
        ("claims.capture_adopted", adopted),
    ];
    for (sequence, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        connection.run(&COUNT, View::Statement, [sequence.into(), count.into()]);
    }
}
