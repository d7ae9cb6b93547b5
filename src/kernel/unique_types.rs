//! The types of unique columns.

use pg::query::query;
use pg::spi;

query! {
    fn has_unique(type_id: i32) -> bool = [Latest] "SELECT FROM claims.unique_constraints u WHERE u.type_id = :type_id";
}

/// The lowest number of such a type, with which claims.unique_types begins.
const FIRST: i32 = 1_000_000;

/// Returns the first of some bucket types that is one of a unique column. Types with lower numbers cost nothing.
pub fn first_of(types: impl Iterator<Item = i32>) -> Option<i32> {
    let mut types: Vec<i32> = types.filter(|id| *id >= FIRST).collect();
    types.sort_unstable();
    types.dedup();
    types.into_iter().find(|id| spi::connect_as_owner(|connection| has_unique(connection, *id)))
}
