//! Releases distributed claims of a cell: chooses them on all nodes at once, and locks and deletes them shard by shard.

use std::collections::HashSet;

use claims_model::Bucket;

use super::door::Citus;
use super::keys::by_shard;
use crate::tables::door::ReleaseTables;
use crate::tables::rows::buckets::values_by_type;
use pg::spi::{Connection, View};
use pg::statement::shared_statement;

shared_statement! {
    FREE(INT8OID, INT8OID) =
        "SELECT c.bucket_type, c.bucket_value FROM claims.claims c WHERE c.creator_id = $1 AND c.status = 1 LIMIT $2";
    /// Locks claims with values $2, which are all in one shard.
    LOCK_FREE(INT8OID, TEXTARRAYOID) =
        "SELECT c.bucket_type, c.bucket_value FROM claims.claims c
          WHERE c.bucket_value = ANY ($2) AND c.creator_id = $1 AND c.status = 1 FOR UPDATE SKIP LOCKED";
    /// Deletes locked claims of one shard.
    RELEASE(INT8OID, TEXTARRAYOID, INT4OID) =
        "DELETE FROM claims.claims c
          WHERE c.bucket_value = ANY ($2) AND c.bucket_type = $3 AND c.creator_id = $1 AND c.status = 1";
}

/// Maximum number of names that one statement locks.
const NAMES: usize = 500;

impl ReleaseTables for Citus {
    fn release(&self, connection: &Connection, cell_id: i64, limit: i64) -> Vec<Bucket<'static>> {
        let limit = usize::try_from(limit).unwrap_or(0);
        let (mut released, mut passed_over): (Vec<Bucket>, HashSet<Bucket>) = (Vec::new(), HashSet::new());
        while released.len() < limit {
            let wanted = limit - released.len();
            // Enough to find claims that were not skipped, if there are any.
            let at_most = (wanted + passed_over.len()) as i64;
            let found = buckets(connection, at_most, cell_id);
            let chosen: Vec<_> =
                found.into_iter().filter(|bucket| !passed_over.contains(bucket)).take(wanted).collect();
            if chosen.is_empty() {
                break;
            }
            for part in parts(connection, &chosen) {
                let locked = release_part(connection, cell_id, &part);
                passed_over.extend(part.into_iter().filter(|bucket| !locked.contains(bucket)).cloned());
                released.extend(locked);
            }
        }
        released
    }
}

fn buckets(connection: &Connection, at_most: i64, cell_id: i64) -> Vec<Bucket<'static>> {
    let rows = connection.run(&FREE, View::Latest, [cell_id.into(), at_most.into()]);
    rows.map(|row| Bucket { bucket_type: row.must(1), value: row.must::<String>(2).into() })
}

/// Groups buckets by shard, in parts for one statement each.
fn parts<'b>(connection: &Connection, buckets: &'b [Bucket<'static>]) -> Vec<Vec<&'b Bucket<'static>>> {
    let all: Vec<&Bucket> = buckets.iter().collect();
    by_shard(connection, &all)
        .into_values()
        .flat_map(|part| part.chunks(NAMES).map(<[_]>::to_vec).collect::<Vec<_>>())
        .collect()
}

fn release_part(connection: &Connection, cell_id: i64, part: &[&Bucket<'static>]) -> HashSet<Bucket<'static>> {
    let values: Vec<&str> = part.iter().map(|bucket| &*bucket.value).collect();
    let wanted: HashSet<&Bucket> = part.iter().copied().collect();
    let locked = connection.run(&LOCK_FREE, View::Statement, [cell_id.into(), values.into()]);
    let locked: HashSet<Bucket> = locked
        .map(|row| Bucket { bucket_type: row.must(1), value: row.must::<String>(2).into() })
        .into_iter()
        // A value may be a name of several types.
        .filter(|bucket| wanted.contains(bucket))
        .collect();
    for (bucket_type, values) in values_by_type(&locked) {
        connection.run(&RELEASE, View::Statement, [cell_id.into(), values.into(), bucket_type.into()]);
    }
    locked
}
