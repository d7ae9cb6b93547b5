//! Releases distributed claims of a cell: chooses them on all nodes at once, and locks and deletes them shard by shard.

use std::collections::HashSet;

use claims_model::Bucket;

use super::cluster::Citus;
use super::keys::by_shard;
use crate::service::claims::{BucketRow, OwnedName, OwnedRow, kept};
use crate::service::names::ReleaseTables;
use pg::clock::Moment;
use pg::query::query;
use pg::spi::Connection;

query! {
    fn free(cell_id: i64, most: i64) -> Vec<BucketRow> = [Latest Anywhere]
        "SELECT c.bucket_type, c.bucket_value FROM claims.claims c WHERE c.creator_id = :cell_id AND c.status = 1 LIMIT :most";
    /// Locks claims with these values, which are all in one shard.
    fn lock_free(cell_id: i64, bucket_values: &[&str]) -> Vec<OwnedRow> = [Statement Anywhere]
        "SELECT c.bucket_type, c.bucket_value, c.subject_type, c.subject_id, c.source_type, c.source_id FROM claims.claims c
          WHERE c.bucket_value = ANY (:bucket_values) AND c.creator_id = :cell_id AND c.status = 1 FOR UPDATE SKIP LOCKED";
}

/// Maximum number of names that one statement locks.
const NAMES: usize = 500;

impl ReleaseTables for Citus {
    fn release(&self, connection: &Connection, cell_id: i64, limit: i64, ends: &[(i32, Moment)]) -> Vec<OwnedName> {
        let limit = usize::try_from(limit).unwrap_or(0);
        let (mut released, mut passed_over): (Vec<OwnedName>, HashSet<Bucket>) = (Vec::new(), HashSet::new());
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
                let locked = release_part(connection, cell_id, &part, ends);
                let is_locked = |bucket: &Bucket| locked.iter().any(|name| name.bucket == *bucket);
                passed_over.extend(part.into_iter().filter(|bucket| !is_locked(bucket)).cloned());
                released.extend(locked);
            }
        }
        released
    }
}

fn buckets(connection: &Connection, at_most: i64, cell_id: i64) -> Vec<Bucket<'static>> {
    free(connection, cell_id, at_most).into_iter().map(Bucket::from).collect()
}

/// Groups buckets by shard, in parts for one statement each.
fn parts<'b>(connection: &Connection, buckets: &'b [Bucket<'static>]) -> Vec<Vec<&'b Bucket<'static>>> {
    let all: Vec<&Bucket> = buckets.iter().collect();
    by_shard(connection, &all)
        .into_values()
        .flat_map(|part| part.chunks(NAMES).map(<[_]>::to_vec).collect::<Vec<_>>())
        .collect()
}

fn release_part(
    connection: &Connection,
    cell_id: i64,
    part: &[&Bucket<'static>],
    ends: &[(i32, Moment)],
) -> Vec<OwnedName> {
    let values: Vec<&str> = part.iter().map(|bucket| &*bucket.value).collect();
    let wanted: HashSet<&Bucket> = part.iter().copied().collect();
    let locked: Vec<OwnedName> = lock_free(connection, cell_id, &values)
        .into_iter()
        .map(OwnedName::from)
        // A value may be a name of several types.
        .filter(|name| wanted.contains(&name.bucket))
        .collect();
    kept::end_locked(connection, cell_id, &locked, ends);
    locked
}
