//! Statements on tables that are spread over the nodes of a Citus cluster. Each leads to one shard, by a value of the column that
//! its table is spread by: so it has a generic plan, is sent to one node, and its errors are those of that node.

use std::collections::{BTreeMap, HashMap};

use claims_model::lookalike::Look;
use claims_model::{Bucket, Claim, Reference};
use pgrx::Uuid as PgUuid;
use uuid::Uuid;

use super::buckets::{displayed_values, values_by_type};
use super::claims::FoundClaim;
use super::distributed_transfers;
use super::leases::{self, EndedRow, Ending, NewLease};
use super::transfers::{ACTIVE, TRANSFERRING};
use crate::pg::clock::Moment;
use crate::pg::spi::{Connection, Value, View};
use crate::pg::statement::{shard_statement, shared_statement};
use crate::pg::uuid::{from_pg_uuid, pg_uuid, pg_uuids};

shared_statement! {
    OLD_OUTCOMES(INT8OID, INT8OID) =
        "SELECT o.lease_uuid FROM claims.lease_outcomes o WHERE o.settled_at <= clock_timestamp() - make_interval(secs => $1)
          ORDER BY o.settled_at LIMIT $2";
    STANDING(INT4OID, TEXTARRAYOID) =
        "SELECT c.bucket_value, c.subject_type, c.subject_id, c.source_type, c.source_id, c.creator_id, c.status, c.lease_uuid
           FROM claims.claims c WHERE c.bucket_value = ANY ($2) AND c.bucket_type = $1";
    MADE_AT(UUIDARRAYOID) = "SELECT l.uuid, l.created_at FROM claims.claim_leases l WHERE l.uuid = ANY ($1)";
    /// Of one shard.
    LOCK_OUTCOMES(UUIDARRAYOID) = "SELECT o.lease_uuid FROM claims.lease_outcomes o WHERE o.lease_uuid = ANY ($1) FOR UPDATE SKIP LOCKED";
    DROP_OUTCOMES(UUIDARRAYOID) = "DELETE FROM claims.lease_outcomes o WHERE o.lease_uuid = ANY ($1)";
}

shard_statement! {
    LEASE(UUIDOID, INT8OID, TIMESTAMPTZOID, JSONBOID, BYTEAOID, XID8OID) = insert_lease!();
    /// Ends a lease with outcome $4 at $5, and returns what it holds: the outcome goes into shard $3, which is beside the lease's.
    END(UUIDOID, INT8OID, INT8OID, TEXTOID, TIMESTAMPTZOID) =
        "DELETE FROM claims.claim_leases l WHERE l.uuid = $1 AND l.creator_id = $2
         RETURNING l.payload -> 'create_records', l.payload -> 'destroy_records',
                   claims.put_outcome_on_node(l.uuid, l.creator_id, l.request_digest, $3, $4, $5)";
    UNPASS_KEY(UUIDOID) = "DELETE FROM claims.claim_leases l WHERE l.uuid = $1";
    FENCE(UUIDOID, INT8OID, TIMESTAMPTZOID) =
        "INSERT INTO claims.lease_outcomes (lease_uuid, creator_id, outcome, settled_at) VALUES ($1, $2, 'rolled_back', $3)
         ON CONFLICT DO NOTHING";
    LOCK_FREE(UUIDOID, INT8OID) =
        "SELECT l.uuid FROM claims.claim_leases l WHERE l.uuid = $1 AND l.creator_id = $2 FOR UPDATE SKIP LOCKED";
    CREATE(UUIDOID, INT8OID, TIMESTAMPTZOID, UUIDOID, INT4OID, TEXTOID, INT4OID, TEXTOID, INT4OID, TEXTOID, TEXTOID) =
        concat!(insert_into!("claims", ", display_value"), "VALUES ($4, $5, $6, $7, $8, $9, $10, $2, $1, 2, $3, $3, $11)");
    REPLACE(UUIDOID, TIMESTAMPTZOID, UUIDOID, INT4OID, TEXTOID, INT4OID, TEXTOID, INT4OID, TEXTOID, TEXTOID) =
        "UPDATE claims.claims c
            SET uuid = $3, subject_type = $6, subject_id = $7, source_type = $8, source_id = $9, status = 1, lease_uuid = NULL,
                created_at = $2, updated_at = $2, display_value = $10
          WHERE c.bucket_value = $5 AND c.bucket_type = $4 AND c.lease_uuid = $1 AND c.status = 3";
    /// The first of uuids $2 of leases that are on the node of bucket value $1.
    BESIDE(TEXTOID, UUIDARRAYOID) =
        "SELECT n.uuid FROM unnest($2) WITH ORDINALITY AS n (uuid, nth)
           JOIN pg_dist_placement l ON l.shardid = get_shard_id_for_distribution_column('claims.claim_leases', n.uuid)
          WHERE l.groupid = (SELECT c.groupid FROM pg_dist_placement c
                              WHERE c.shardid = get_shard_id_for_distribution_column('claims.claims', $1) LIMIT 1)
          ORDER BY n.nth LIMIT 1";
    /// The shards in which keys are, in the order given. Asks the catalogs of this node only.
    SHARDS_OF_BUCKETS(TEXTARRAYOID) =
        "SELECT get_shard_id_for_distribution_column('claims.claims', n.value)
           FROM unnest($1) WITH ORDINALITY AS n (value, nth) ORDER BY n.nth";
    /// The shard in which a key is. Asks the catalogs of this node only.
    SHARD_OF_LEASE(UUIDOID) = "SELECT get_shard_id_for_distribution_column('claims.claim_leases', $1)::text";
    SHARDS_OF_OUTCOMES(UUIDARRAYOID) =
        "SELECT get_shard_id_for_distribution_column('claims.lease_outcomes', n.uuid)
           FROM unnest($1) WITH ORDINALITY AS n (uuid, nth) ORDER BY n.nth";
    SHARD_OF_LOOK(UUIDOID) = "SELECT get_shard_id_for_distribution_column('claims.skeletons', $1)::text";
}

/// Puts a lease in. A uuid that exists is a unique violation.
pub fn put_lease(connection: &Connection, lease: &NewLease) {
    connection.run(&LEASE, View::Statement, lease.values());
}

/// Fences a lease that is not known. `false`: by now it is.
pub fn fence(connection: &Connection, lease: Uuid, cell_id: i64) -> bool {
    let key = || [pg_uuid(lease).into(), cell_id.into()];
    if !leases::pass_key(connection, lease, cell_id) {
        return false;
    }
    connection.run(&UNPASS_KEY, View::Statement, [pg_uuid(lease).into()]);
    connection.run(&FENCE, View::Statement, key().into_iter().chain([Moment::now().into()])).count() == 1
}

/// Ends the cell's leases: deletes their rows and writes their outcome, one by one, a message for each. Waits up to the limit for rows that another
/// transaction holds.
pub fn end(connection: &Connection, list: &[Uuid], cell_id: i64, ending: Ending, at: Moment) -> Vec<EndedRow> {
    let shards = shards_of_outcomes(connection, list.iter().copied().map(pg_uuid).collect());
    let end = |(lease, shard): (&Uuid, i64)| {
        let key: [Value; 2] = [pg_uuid(*lease).into(), cell_id.into()];
        let outcome = [shard.into(), ending.outcome().into(), at.into()];
        let ended = connection.run(&END, View::Statement, key.into_iter().chain(outcome));
        ended.first(|row| EndedRow { uuid: *lease, creates: row.get(1), destroys: row.get(2) })
    };
    list.iter().zip(shards).filter_map(end).collect()
}

/// Locks those of the cell's leases that nobody else has locked, and returns them.
pub fn lock_free(connection: &Connection, list: &[Uuid], cell_id: i64) -> Vec<Uuid> {
    let lock = |lease: &&Uuid| {
        connection.run(&LOCK_FREE, View::Statement, [pg_uuid(**lease).into(), cell_id.into()]).count() == 1
    };
    list.iter().filter(lock).copied().collect()
}

/// Drops up to `limit` outcomes older than `retention` seconds, but none that others have locked.
pub fn purge_outcomes(connection: &Connection, retention: i64, limit: i64) -> usize {
    let old = connection.run(&OLD_OUTCOMES, View::Latest, [retention.into(), limit.into()]);
    let old: Vec<PgUuid> = old.map(|row| row.must(1));
    let parts = grouped(shards_of_outcomes(connection, old.clone()).into_iter().zip(old));
    let lock =
        |part: Vec<PgUuid>| connection.run(&LOCK_OUTCOMES, View::Statement, [part.into()]).map(|row| row.must(1));
    let locked: Vec<PgUuid> = parts.into_values().flat_map(lock).collect();
    if locked.is_empty() { 0 } else { connection.run(&DROP_OUTCOMES, View::Statement, [locked.into()]).count() }
}

fn shards_of_outcomes(connection: &Connection, leases: Vec<PgUuid>) -> Vec<i64> {
    connection.run(&SHARDS_OF_OUTCOMES, View::Latest, [leases.into()]).map(|row| row.must(1))
}

/// As many rows as one statement puts in.
const ROWS: usize = 200;

/// Creates claims under a lease; how many. Not INSERT … SELECT, which brings every error as XX000.
pub fn put(connection: &Connection, lease: &NewLease, creates: &[&Claim]) -> usize {
    match creates {
        [only] => {
            let values = lease.key_values().into_iter().chain(displayed_values(only));
            connection.run(&CREATE, View::Statement, values).count()
        }
        _ => creates.chunks(ROWS).map(|rows| put_rows(connection, lease, rows)).sum(),
    }
}

/// Into these columns rows of claims are put.
pub(super) const INTO_CLAIMS: &str = insert_into!("claims", ", display_value");

/// A row of claims under the lease $1 of cell $2 at $3, of the eight values behind so many others.
pub(super) fn row(values: usize) -> String {
    let at = |column: usize| values + column;
    let [uuid, bucket_type, value, subject_type, subject, source_type, source, display] =
        [at(1), at(2), at(3), at(4), at(5), at(6), at(7), at(8)];
    format!(
        "(${uuid}, ${bucket_type}, ${value}, ${subject_type}, ${subject}, ${source_type}, ${source}, $2, $1, 2, $3, $3, ${display})"
    )
}

fn put_rows(connection: &Connection, lease: &NewLease, rows: &[&Claim]) -> usize {
    let values = (0..rows.len()).map(|nth| row(3 + 8 * nth)).collect::<Vec<_>>().join(", ");
    let text = format!("{INTO_CLAIMS}VALUES {values}");
    let values = rows.iter().flat_map(|claim| displayed_values(claim));
    connection.run_text(&text, lease.key_values().into_iter().chain(values)).count()
}

/// Makes another claim of one that a lease is to replace, in place; how many.
pub fn replace(connection: &Connection, lease: Uuid, claim: &Claim, at: Moment) -> usize {
    let key: [Value; 2] = [pg_uuid(lease).into(), at.into()];
    connection.run(&REPLACE, View::Statement, key.into_iter().chain(displayed_values(claim))).count()
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
fn grouped<T>(rows: impl Iterator<Item = (i64, T)>) -> BTreeMap<i64, Vec<T>> {
    let mut groups: BTreeMap<i64, Vec<T>> = BTreeMap::new();
    for (shard, row) in rows {
        groups.entry(shard).or_default().push(row);
    }
    groups
}

/// A claim that stands, with its status, and what holds it.
struct Standing {
    bucket: Bucket<'static>,
    found: FoundClaim,
    status: i16,
    holder: Option<Uuid>,
}

/// What is committed on buckets right now. Leases and transfers are on other nodes: they are asked for next.
pub fn standing_on(connection: &Connection, buckets: &[&Bucket]) -> HashMap<Bucket<'static>, FoundClaim> {
    let reference = |type_id, id: String| Reference { type_id, id: id.into() };
    let of_type = |(bucket_type, values): (i32, Vec<&str>)| {
        connection.run(&STANDING, View::Latest, [bucket_type.into(), values.into()]).map(|row| {
            let status = row.must(7);
            let found = FoundClaim {
                subject: reference(row.must(2), row.must(3)),
                source: reference(row.must(4), row.must(5)),
                holder_cell_id: row.must(6),
                active: status == ACTIVE,
                lease_made_at: None,
                other_cell_id: None,
            };
            let bucket = Bucket { bucket_type, value: row.must::<String>(1).into() };
            Standing { bucket, found, status, holder: row.get::<PgUuid>(8).map(from_pg_uuid) }
        })
    };
    let standing: Vec<_> = values_by_type(buckets.iter().copied()).into_iter().flat_map(of_type).collect();
    let holders = |is_transfer: bool| {
        let meant = standing.iter().filter(move |one| (one.status == TRANSFERRING) == is_transfer);
        meant.filter_map(|one| one.holder)
    };
    let places = distributed_transfers::places(connection, holders(true).collect());
    let mut leases: Vec<Uuid> = holders(false).collect();
    leases.sort_unstable();
    leases.dedup();
    let made_at: HashMap<Uuid, Moment> = match leases.is_empty() {
        true => HashMap::new(),
        false => {
            let rows = connection.run(&MADE_AT, View::Latest, [pg_uuids(leases)]);
            rows.map(|row| (from_pg_uuid(row.must(1)), row.must(2))).into_iter().collect()
        }
    };
    let with_holder = |Standing { bucket, found, status, holder }: Standing| {
        let Some(holder) = holder else { return (bucket, found) };
        let found = match places.get(&holder).filter(|_| status == TRANSFERRING) {
            Some(place) => FoundClaim {
                holder_cell_id: place.cell_id,
                other_cell_id: Some(place.other_cell_id),
                lease_made_at: Some(place.created_at),
                ..found
            },
            None => FoundClaim { lease_made_at: made_at.get(&holder).copied(), ..found },
        };
        (bucket, found)
    };
    standing.into_iter().map(with_holder).collect()
}

/// Those of the buckets of one shard that another open transaction is at: asked of the shard's own index, on its node.
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
    let shard: Option<String> =
        connection.run(&SHARD_OF_LEASE, View::Latest, [pg_uuid(lease).into()]).first(|row| row.must(1));
    let Some(shard) = shard else { return false };
    let text = format!(
        "SELECT claims.is_lease_in_flight('claim_leases_{shard}', $1)
           FROM (SELECT count(*) FROM claims.claim_leases WHERE uuid = $1) here"
    );
    connection.run_text_now(&text, [pg_uuid(lease).into()]).first(|row| row.must(1)).unwrap_or(false)
}

/// The same of a look.
pub fn is_look_in_flight(connection: &Connection, look: Look) -> bool {
    let skeleton = || pg_uuid(look.skeleton).into();
    let shard: Option<String> = connection.run(&SHARD_OF_LOOK, View::Latest, [skeleton()]).first(|row| row.must(1));
    let Some(shard) = shard else { return false };
    let text = format!(
        "SELECT claims.is_look_in_flight('skeletons_{shard}', $1, $2)
           FROM (SELECT count(*) FROM claims.skeletons WHERE skeleton = $1 AND bucket_type = $2) here"
    );
    connection.run_text_now(&text, [skeleton(), look.bucket_type.into()]).first(|row| row.must(1)).unwrap_or(false)
}
