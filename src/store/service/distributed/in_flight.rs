//! Whether other open transactions are at rows that are spread over the nodes of a Citus cluster: asked of a shard's own index, on its
//! node.

use claims_model::Bucket;
use claims_model::lookalike::Look;
use uuid::Uuid;

use super::keys::{shard_of_lease, shard_of_look};
use crate::pg::spi::{Connection, Value};
use crate::pg::uuid::pg_uuid;

/// Those of the buckets of one shard that another open transaction is at.
pub fn buckets_in_flight<'b>(connection: &Connection, shard: i64, buckets: &[&'b Bucket<'b>]) -> Vec<&'b Bucket<'b>> {
    let Some(first) = buckets.first() else { return Vec::new() };
    // A row of one shard: a query that Citus passes on whole, with the function in it.
    let text = format!(
        "SELECT claims.buckets_in_flight('claims_{shard}', $2, $3)
           FROM (SELECT count(*) FROM claims.claims WHERE bucket_value = $1 AND bucket_type = $4) here"
    );
    let values: Vec<&str> = buckets.iter().map(|bucket| &*bucket.value).collect();
    let types: Vec<i32> = buckets.iter().map(|bucket| bucket.bucket_type).collect();
    let arguments: [Value; 4] = [(&*first.value).into(), values.into(), types.into(), first.bucket_type.into()];
    let places: Vec<i32> = connection.run_text_now(&text, arguments).first(|row| row.must(1)).unwrap_or_default();
    let at = |place: i32| buckets.get(usize::try_from(place).ok()?.checked_sub(1)?).copied();
    places.into_iter().filter_map(at).collect()
}

/// The same of a lease.
pub fn is_lease_in_flight(connection: &Connection, lease: Uuid) -> bool {
    let Some(shard) = shard_of_lease(connection, lease) else { return false };
    let text = format!(
        "SELECT claims.is_lease_in_flight('claim_leases_{shard}', $1)
           FROM (SELECT count(*) FROM claims.claim_leases WHERE uuid = $1) here"
    );
    connection.run_text_now(&text, [pg_uuid(lease).into()]).first(|row| row.must(1)).unwrap_or(false)
}

/// The same of a look.
pub fn is_look_in_flight(connection: &Connection, look: Look) -> bool {
    let Some(shard) = shard_of_look(connection, look) else { return false };
    let text = format!(
        "SELECT claims.is_look_in_flight('skeletons_{shard}', $1, $2)
           FROM (SELECT count(*) FROM claims.skeletons WHERE skeleton = $1 AND bucket_type = $2) here"
    );
    connection
        .run_text_now(&text, [pg_uuid(look.skeleton).into(), look.bucket_type.into()])
        .first(|row| row.must(1))
        .unwrap_or(false)
}
