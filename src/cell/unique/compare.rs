//! Compares the values of a table with the claims that it has, in one snapshot.
//!
//! Once each row with a value has a claim of its own, and each claim a row, every later transaction keeps it so, because it changes rows and claims
//! together. Claims of one table never have equal values, so then its rows have none either. The comparison locks no row, and needs no memory that
//! grows with the table: each side is the sum of the hashes of its values, under keys that are drawn for this comparison.

use std::hash::{BuildHasher, RandomState};

use super::table_values::UniqueTable;
use pg::query::scan;
use pg::spi::Connection;
use pg::xact;

scan! {
    /// Passes the values that are claimed for a generation.
    fn values_claimed(cell_id: i64, type_id: i32, generation: &str) -> String = [Caller]
        "SELECT c.bucket_value FROM claims.claims c
          WHERE c.creator_id = :cell_id AND c.source_type = :type_id AND length(c.source_id) = length(:generation) AND c.source_id = :generation
            AND c.bucket_type = :type_id";
}

/// A set of values, as sums of two hashes of each.
#[derive(PartialEq, Eq, Default)]
struct Sums {
    values: u64,
    hashes: [u64; 2],
}

impl Sums {
    fn add(&mut self, keys: &[RandomState; 2], value: &str) {
        self.values += 1;
        for (sum, keys) in self.hashes.iter_mut().zip(keys) {
            *sum = sum.wrapping_add(keys.hash_one(value));
        }
    }
}

/// Returns whether the claims of a table's generation are exactly those that its rows need. The caller has locked the table against what renames,
/// rewrites or drops it, and the transaction is one of READ COMMITTED.
pub fn is_claimed(connection: &Connection, cell_id: i64, table: &UniqueTable) -> bool {
    let keys = [RandomState::new(), RandomState::new()];
    let (mut rows, mut claims) = (Sums::default(), Sums::default());
    let mut all_fit = true;
    let (type_id, generation) = (table.column.type_id, table.generation.to_string());
    xact::with_snapshot(|| {
        table.read(&table.query(""), true, |value| match table.canonical(value) {
            Ok((value, _)) => rows.add(&keys, &value),
            Err(_) => all_fit = false,
        });
        values_claimed(connection, cell_id, type_id, &generation, &mut |value: String| claims.add(&keys, &value));
    });
    all_fit && rows == claims
}
