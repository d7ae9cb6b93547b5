//! Releasing the claims of a cell that are spread over the nodes of a Citus cluster: chosen on all of them, locked and deleted on one
//! after the other.

use std::collections::HashSet;

use claims_model::Bucket;

use super::keys::by_shard;
use crate::pg::spi::{Connection, View};
use crate::pg::statement::shared_statement;
use crate::store::service::buckets::values_by_type;

shared_statement! {
    FREE(INT8OID, INT8OID) =
        "SELECT c.bucket_type, c.bucket_value FROM claims.claims c WHERE c.creator_id = $1 AND c.status = 1 LIMIT $2";
    /// Of values $2, which are all of one shard.
    LOCK_FREE(INT8OID, TEXTARRAYOID) =
        "SELECT c.bucket_type, c.bucket_value FROM claims.claims c
          WHERE c.bucket_value = ANY ($2) AND c.creator_id = $1 AND c.status = 1 FOR UPDATE SKIP LOCKED";
    /// Of one shard, too: what was locked.
    RELEASE(INT8OID, TEXTARRAYOID, INT4OID) =
        "DELETE FROM claims.claims c
          WHERE c.bucket_value = ANY ($2) AND c.bucket_type = $3 AND c.creator_id = $1 AND c.status = 1";
}

/// As many names as one statement locks.
const NAMES: usize = 500;

/// Deletes up to `limit` claims of a cell that no lease holds, and returns which they were. Passes over those that others have locked.
pub fn release(connection: &Connection, cell_id: i64, limit: i64) -> Vec<Bucket<'static>> {
    let limit = usize::try_from(limit).unwrap_or(0);
    let (mut released, mut passed_over): (Vec<Bucket>, HashSet<Bucket>) = (Vec::new(), HashSet::new());
    while released.len() < limit {
        let wanted = limit - released.len();
        // So many that there are others among them, if there are any.
        let at_most = (wanted + passed_over.len()) as i64;
        let found = buckets(connection, at_most, cell_id);
        let chosen: Vec<_> = found.into_iter().filter(|bucket| !passed_over.contains(bucket)).take(wanted).collect();
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

fn buckets(connection: &Connection, at_most: i64, cell_id: i64) -> Vec<Bucket<'static>> {
    let rows = connection.run(&FREE, View::Latest, [cell_id.into(), at_most.into()]);
    rows.map(|row| Bucket { bucket_type: row.must(1), value: row.must::<String>(2).into() })
}

/// Names of one shard each, as many as one statement takes.
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
