//! Counters of destroys that capture has skipped and of claims that it has adopted. They are sequences, so that sessions do not
//! wait for each other.

use claims_model::outgoing::SkippedDestroys;

use pg::query::query;
use pg::spi::Connection;

query! {
    fn advance(sequence: &str, by: i64) = [Statement] "SELECT max(nextval(:sequence::regclass)) FROM generate_series(1::bigint, :by)";
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
        advance(connection, sequence, count);
    }
}
