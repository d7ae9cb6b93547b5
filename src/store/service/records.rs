//! Statements that read claims and leases for people and programs.

use std::collections::HashMap;

use claims_model::cursor::{ClaimCursor, LeaseCursor};
use claims_model::limits::PAGE_BYTES;
use claims_model::{Bucket, NOBODY};
use pgrx::Uuid as PgUuid;

use super::buckets::values_by_type;
pub use super::claim_rows::StoredClaim;
use super::claim_rows::{PageEnd, TRANSFERRING, claim, claim_page, columns};
use super::claims::{BUCKET_INDEX, bucket_key_parts};
use super::distributed::records as distributed;
use super::distributed::transfers::{self as distributed_transfers, Place};
use super::{known_or_raised, transfers};
use crate::distribution;
use crate::pg::clock::Moment;
use crate::pg::index::{self, Unusable};
use crate::pg::spi::{self, Connection, Value, View};
use crate::pg::statement::{shared_statement, statement};
use crate::pg::uuid::{from_pg_uuid, pg_uuid};
use crate::pg::xid8::Xid8;

/// The first leases, as many as were asked for and as have so many bytes of payload together; the first one in any case. Until
/// it is known which they are, payloads stay where they are stored. They are read in the order of the index, see above.
macro_rules! lease_page {
    ($condition:literal, $limit:literal, $bytes:literal) => {
        concat!(
            "SELECT uuid, creator_id, created_at, updated_at, payload::text, cell_xid
               FROM (SELECT l.*, row_number() OVER so_far AS nth, sum(pg_column_size(l.payload)) OVER so_far AS bytes
                       FROM (SELECT * FROM claims.claim_leases WHERE ", $condition, "
                              ORDER BY created_at FETCH FIRST (", $limit, ") ROWS WITH TIES) l
                     WINDOW so_far AS (ORDER BY l.created_at, l.uuid ROWS UNBOUNDED PRECEDING)) page
              WHERE nth <= ", $limit, " AND (nth = 1 OR bytes <= ", $bytes, ") ORDER BY created_at, uuid"
        )
    };
}

statement! {
    /// Claims of one bucket type by their values, with the cells that they are stored as.
    CLAIMS(INT4OID, TEXTARRAYOID) = concat!(
        "SELECT ", columns!("c.creator_id"), " FROM claims.claims c
          WHERE c.bucket_type = $1 AND c.bucket_value = ANY ($2) AND c.creator_id <> -1");
    /// A cell's claims of source type $2 from source id $3 on, behind bucket ($4, $5) where the source id is $3; of source
    /// ids that are no longer than $6; at most $7; of bucket types $8, or all.
    CLAIM_PAGE(INT8OID, INT4OID, TEXTOID, INT4OID, TEXTOID, INT4OID, INT8OID, INT4ARRAYOID) = claim_page!(range);
    /// The same of source ids as long as $6, and up to it. An index does not stop at the end of a comparison of rows.
    LAST_CLAIM_PAGE(INT8OID, INT4OID, TEXTOID, INT4OID, TEXTOID, TEXTOID, INT8OID, INT4ARRAYOID) = claim_page!(last_range);
    /// The source types of a cell's claims from $2 on, by hops through the index; also those of cells from which transfers have
    /// brought it claims.
    SOURCE_TYPES_FROM(INT8OID, INT4OID) = concat!(
        "SELECT DISTINCT h.source_type
           FROM (SELECT $1 AS cell_id UNION ALL SELECT t.from_cell FROM ", arrived!(), ") AS stored
          CROSS JOIN LATERAL (
            WITH RECURSIVE hop AS (
                (SELECT c.source_type FROM claims.claims c WHERE c.creator_id = stored.cell_id AND c.source_type >= $2
                  ORDER BY c.creator_id, c.source_type LIMIT 1)
                UNION ALL
                SELECT (SELECT c.source_type FROM claims.claims c WHERE c.creator_id = stored.cell_id AND c.source_type > hop.source_type
                         ORDER BY c.creator_id, c.source_type LIMIT 1)
                  FROM hop WHERE hop.source_type IS NOT NULL)
            SELECT source_type FROM hop WHERE source_type IS NOT NULL) AS h
          ORDER BY 1");
}

shared_statement! {
    /// A page of a cell's leases, oldest first, up to $5 of them and $6 bytes of payload.
    LEASE_PAGE(INT8OID, TIMESTAMPTZOID, UUIDOID, TIMESTAMPTZOID, INT8OID, INT8OID) = lease_page!(
        "creator_id = $1 AND created_at >= $2 AND (created_at, uuid) > ($2, $3) AND created_at >= $4", "$5", "$6");
    /// A page of all cells' leases, oldest first, up to $4 of them and $5 bytes of payload.
    LEASE_PAGE_OF_ALL(TIMESTAMPTZOID, UUIDOID, TIMESTAMPTZOID, INT8OID, INT8OID) = lease_page!(
        "(created_at, uuid) > ($1, $2) AND created_at >= $3", "$4", "$5");
}

/// The claim on a bucket as the calling query sees it.
pub fn by_bucket(bucket_type: i32, bucket_value: &str) -> Option<StoredClaim> {
    if distribution::is_spread() {
        return by_statement(bucket_type, bucket_value);
    }
    let found = index::find(c"claims", &bucket_key_parts(bucket_value, bucket_type), |row| StoredClaim {
        uuid: row.must(c"uuid"),
        bucket_type: row.must(c"bucket_type"),
        bucket_value: row.must(c"bucket_value"),
        subject_type: row.must(c"subject_type"),
        subject_id: row.must(c"subject_id"),
        source_type: row.must(c"source_type"),
        source_id: row.must(c"source_id"),
        cell_id: row.must(c"creator_id"),
        lease_uuid: row.get(c"lease_uuid"),
        status: row.must(c"status"),
        created_at: row.must(c"created_at"),
        updated_at: row.must(c"updated_at"),
        display_value: row.get(c"display_value"),
    });
    match found {
        // The planner knows other ways than an index that was made behind this query's back.
        Err(Unusable::TooNew) => by_statement(bucket_type, bucket_value),
        // What is reserved is nobody's claim.
        found => known_or_raised(found, BUCKET_INDEX)
            .filter(|claim| claim.cell_id != NOBODY)
            .map(|claim| located(claim, transfers::cell_of)),
    }
}

fn by_statement(bucket_type: i32, bucket_value: &str) -> Option<StoredClaim> {
    let bucket = Bucket { bucket_type, value: bucket_value.into() };
    spi::connect(|connection| by_buckets(connection, &[bucket]).pop())
}

/// A claim with the cell that it is at: where a transfer holds it, the transfer's row says so in the same snapshot.
fn located(claim: StoredClaim, cell_of: impl FnOnce(PgUuid) -> Option<i64>) -> StoredClaim {
    let transfer = claim.lease_uuid.filter(|_| claim.status == TRANSFERRING);
    StoredClaim { cell_id: transfer.and_then(cell_of).unwrap_or(claim.cell_id), ..claim }
}

/// The claims on buckets, in the order of the buckets.
pub fn by_buckets(connection: &Connection, buckets: &[Bucket]) -> Vec<StoredClaim> {
    let is_spread = distribution::is_spread();
    let of_type = |(bucket_type, values): (i32, Vec<&str>)| {
        let statement = if is_spread { &distributed::CLAIMS } else { &CLAIMS };
        connection.run(statement, View::Caller, [bucket_type.into(), values.into()]).map(claim)
    };
    let stored = values_by_type(buckets).into_iter().flat_map(of_type).collect::<Vec<_>>();
    // A transfer holds many claims: where they are is asked once for all of them.
    let mut transfers: HashMap<[u8; 16], Option<i64>> = match is_spread {
        true => {
            let held = stored.iter().filter(|claim| claim.status == TRANSFERRING).filter_map(|claim| claim.lease_uuid);
            let places = distributed_transfers::places(connection, held.map(from_pg_uuid).collect());
            places.into_values().map(|place| (*place.transfer.as_bytes(), Some(place.cell_id))).collect()
        }
        false => HashMap::new(),
    };
    let mut cell_of = |transfer: PgUuid| {
        let cell = transfers.entry(*transfer.as_bytes());
        *cell.or_insert_with(|| if is_spread { None } else { transfers::cell_of(transfer) })
    };
    let bucket_of =
        |claim: &StoredClaim| Bucket { bucket_type: claim.bucket_type, value: claim.bucket_value.clone().into() };
    let found: HashMap<Bucket, StoredClaim> =
        stored.into_iter().map(|claim| (bucket_of(&claim), located(claim, &mut cell_of))).collect();
    buckets.iter().filter_map(|bucket| found.get(bucket).cloned()).collect()
}

/// A cell's claims of one source type behind a cursor, up to a source id; of some bucket types, or of all.
pub fn page(
    connection: &Connection,
    cell_id: i64,
    after: &ClaimCursor,
    last_source_id: Option<&str>,
    bucket_types: Option<&[i32]>,
    limit: i64,
) -> Vec<StoredClaim> {
    let read = |places: Option<&[Place]>| {
        let length = |id: &str| i32::try_from(id.chars().count()).unwrap_or(i32::MAX);
        let part = |end: PageEnd, source_id: &str, limit: i64| {
            let from = |stored_as: i64| -> [Value; 8] {
                [
                    stored_as.into(),
                    after.source_type.into(),
                    source_id.into(),
                    after.bucket_type.into(),
                    after.bucket_value.as_str().into(),
                    end.into(),
                    limit.into(),
                    bucket_types.map(<[i32]>::to_vec).into(),
                ]
            };
            match (places, end) {
                (None, PageEnd::Length(_)) => connection.run(&CLAIM_PAGE, View::Caller, from(cell_id)).map(claim),
                (None, PageEnd::SourceId(_)) => {
                    connection.run(&LAST_CLAIM_PAGE, View::Caller, from(cell_id)).map(claim)
                }
                (Some(places), end) => distributed::part(connection, cell_id, places, end, from, limit),
            }
        };
        let no_longer_than = |length: i32, limit| part(PageEnd::Length(length), &after.source_id, limit);
        let Some(last) = last_source_id else { return no_longer_than(i32::MAX, limit) };
        let mut found = no_longer_than(length(last) - 1, limit);
        let room = limit.saturating_sub_unsigned(found.len() as u64);
        if room > 0 && length(&after.source_id) <= length(last) {
            // Behind shorter ids come all of this length, whatever their buckets.
            let start = if length(&after.source_id) == length(last) { after.source_id.as_str() } else { "" };
            found.extend(part(PageEnd::SourceId(last), start, room));
        }
        found
    };
    match distribution::is_spread() {
        true => distributed_transfers::steadily(connection, cell_id, |places| read(Some(places))),
        false => read(None),
    }
}

/// The source types of a cell's claims, from one on.
pub fn source_types_from(connection: &Connection, cell_id: i64, first: i32) -> Vec<i32> {
    if distribution::is_spread() {
        return distributed::source_types_from(connection, cell_id, first);
    }
    connection.run(&SOURCE_TYPES_FROM, View::Caller, [cell_id.into(), first.into()]).map(|row| row.must(1))
}

/// An outstanding lease as it is stored.
pub struct ListedLease {
    pub uuid: PgUuid,
    pub cell_id: i64,
    pub created_at: Moment,
    pub updated_at: Moment,
    pub payload: String,
    pub cell_xid: Option<Xid8>,
}

/// A page of leases behind a cursor and not older than a moment; of all cells where none is named.
pub fn lease_page(
    connection: &Connection,
    cell_id: Option<i64>,
    after: &LeaseCursor,
    created_after: Moment,
    limit: i64,
) -> Vec<ListedLease> {
    let position = || -> [Value; 5] {
        let bytes = PAGE_BYTES as i64;
        [
            Moment(after.created_at).into(),
            pg_uuid(after.lease_uuid).into(),
            created_after.into(),
            limit.into(),
            bytes.into(),
        ]
    };
    let rows = match cell_id {
        Some(cell_id) => connection.run(&LEASE_PAGE, View::Caller, [cell_id.into()].into_iter().chain(position())),
        None => connection.run(&LEASE_PAGE_OF_ALL, View::Caller, position()),
    };
    rows.map(|row| ListedLease {
        uuid: row.must(1),
        cell_id: row.must(2),
        created_at: row.must(3),
        updated_at: row.must(4),
        payload: row.must(5),
        cell_xid: row.get(6),
    })
}
