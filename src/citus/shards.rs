//! Statements on shards of this node, for other nodes: they write to shards next to the one that Citus has sent the other node's
//! statement to.

use uuid::Uuid;

use crate::service::claims::NewClaims;
use pg::clock::Moment;
use pg::query::{query, shard_query};
use pg::spi::Connection;
use pg::xact;

query! {
    /// Returns whether one of the `count` transactions from `first` on (without its epoch) has told Citus of a new placement of one of the
    /// extension's shards.
    fn have_moved_since(first: i64, count: i64) -> bool = [Statement Node]
        "SELECT EXISTS (SELECT FROM pg_dist_placement p JOIN pg_dist_shard s ON s.shardid = p.shardid JOIN pg_class c ON c.oid = s.logicalrelid
                         WHERE c.relnamespace = 'claims'::regnamespace
                           AND (p.xmin::text::int8 - :first + 4294967296) % 4294967296 < :count)";
}

/// Claims `c` that leases hold with a status.
macro_rules! held {
    () => {
        "c.bucket_value = ANY (:bucket_values) AND c.bucket_type = ANY (:bucket_types) AND c.lease_uuid = ANY (:leases) AND c.status = :status"
    };
}

shard_query! {
    /// Creates claims with a status in a shard. Returns their number. unnest() in the select list costs a third of what it costs in FROM,
    /// where PostgreSQL would first write each array to a tuplestore of its own.
    pub fn create(lease: Option<Uuid>, cell_id: i64, at: Moment, status: i16; ..new: NewClaims) -> usize = [Shard]
        "INSERT INTO claims.claims_SHARD (uuid, bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id,
                                          lease_uuid, status, created_at, updated_at, display_value)
         SELECT unnest(:uuid), unnest(:bucket_type), unnest(:bucket_value), unnest(:subject_type), unnest(:subject_id),
                unnest(:source_type), unnest(:source_id), :cell_id, :lease, :status, :at, :at, unnest(:display_value)";
    /// Makes held claims of a shard ACTIVE at a time. Returns their number.
    pub fn activate(leases: &[Uuid], bucket_types: &[i32], bucket_values: &[&str], status: i16, at: Moment) -> usize = [Shard]
        concat!("UPDATE claims.claims_SHARD c SET status = 1, lease_uuid = NULL, updated_at = :at WHERE ", held!());
    /// Deletes held claims of a shard. Returns their number.
    pub fn remove(leases: &[Uuid], bucket_types: &[i32], bucket_values: &[&str], status: i16) -> usize = [Shard]
        concat!("DELETE FROM claims.claims_SHARD c WHERE ", held!());
    pub fn put_outcome(lease: Uuid, cell_id: i64, request_digest: Option<&[u8]>, outcome: &str, at: Moment) -> usize = [Shard]
        "INSERT INTO claims.lease_outcomes_SHARD (lease_uuid, creator_id, request_digest, outcome, settled_at)
         VALUES (:lease, :cell_id, :request_digest, :outcome, :at)";
}

/// Returns whether a transaction not older than `oldest` has moved a shard of the extension's tables.
pub fn have_moved(connection: &Connection, oldest: u64) -> bool {
    let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    have_moved_since(connection, whole(oldest & u64::from(u32::MAX)), whole(xact::next_xid().0 - oldest))
}
