//! Where keys are: in which shards, on which node. Asks the catalogs of this node only.

use std::collections::BTreeMap;

use claims_model::Bucket;
use claims_model::lookalike::Look;
use pgrx::Uuid as PgUuid;
use uuid::Uuid;

use crate::pg::spi::{Connection, Value, View};
use crate::pg::statement::shard_statement;
use crate::pg::uuid::{from_pg_uuid, pg_uuid, pg_uuids};

shard_statement! {
    /// The first of uuids $2 of leases that are on the node of bucket value $1.
    BESIDE(TEXTOID, UUIDARRAYOID) =
        "SELECT n.uuid FROM unnest($2) WITH ORDINALITY AS n (uuid, nth)
           JOIN pg_dist_placement l ON l.shardid = get_shard_id_for_distribution_column('claims.claim_leases', n.uuid)
          WHERE l.groupid = (SELECT c.groupid FROM pg_dist_placement c
                              WHERE c.shardid = get_shard_id_for_distribution_column('claims.claims', $1) LIMIT 1)
          ORDER BY n.nth LIMIT 1";
    /// The shards in which keys are, in the order given.
    SHARDS_OF_BUCKETS(TEXTARRAYOID) =
        "SELECT get_shard_id_for_distribution_column('claims.claims', n.value)
           FROM unnest($1) WITH ORDINALITY AS n (value, nth) ORDER BY n.nth";
    /// The shard in which a key is.
    SHARD_OF_LEASE(UUIDOID) = "SELECT get_shard_id_for_distribution_column('claims.claim_leases', $1)::text";
    SHARDS_OF_OUTCOMES(UUIDARRAYOID) =
        "SELECT get_shard_id_for_distribution_column('claims.lease_outcomes', n.uuid)
           FROM unnest($1) WITH ORDINALITY AS n (uuid, nth) ORDER BY n.nth";
    SHARD_OF_LOOK(UUIDOID) = "SELECT get_shard_id_for_distribution_column('claims.skeletons', $1)::text";
}

/// The first of the uuids that a lease on the node of a bucket has.
pub fn beside(connection: &Connection, bucket: &Bucket, drawn: &[Uuid]) -> Option<Uuid> {
    let values: [Value; 2] = [(&*bucket.value).into(), pg_uuids(drawn.iter().copied())];
    connection.run(&BESIDE, View::Latest, values).first(|row| from_pg_uuid(row.must(1)))
}

/// Buckets by their shards, in the order given: a statement on those of one leads to one node.
pub fn by_shard<'b, 'n>(connection: &Connection, buckets: &[&'b Bucket<'n>]) -> BTreeMap<i64, Vec<&'b Bucket<'n>>> {
    let values: Vec<&str> = buckets.iter().map(|bucket| &*bucket.value).collect();
    let shards = connection.run(&SHARDS_OF_BUCKETS, View::Latest, [values.into()]).map(|row| row.must(1));
    grouped(shards.into_iter().zip(buckets.iter().copied()))
}

/// By their shards, in the order given.
pub(super) fn grouped<T>(rows: impl Iterator<Item = (i64, T)>) -> BTreeMap<i64, Vec<T>> {
    let mut groups: BTreeMap<i64, Vec<T>> = BTreeMap::new();
    for (shard, row) in rows {
        groups.entry(shard).or_default().push(row);
    }
    groups
}

/// The shards in which outcomes of leases are, in the order given.
pub(super) fn shards_of_outcomes(connection: &Connection, leases: Vec<PgUuid>) -> Vec<i64> {
    connection.run(&SHARDS_OF_OUTCOMES, View::Latest, [leases.into()]).map(|row| row.must(1))
}

/// The shard in which a lease is.
pub(super) fn shard_of_lease(connection: &Connection, lease: Uuid) -> Option<String> {
    connection.run(&SHARD_OF_LEASE, View::Latest, [pg_uuid(lease).into()]).first(|row| row.must(1))
}

/// The shard in which a look is.
pub(super) fn shard_of_look(connection: &Connection, look: Look) -> Option<String> {
    connection.run(&SHARD_OF_LOOK, View::Latest, [pg_uuid(look.skeleton).into()]).first(|row| row.must(1))
}
