//! Statements that read distributed claims. A separate query asks for the transfers that hold them.

use std::collections::HashMap;

use claims_model::Bucket;
use pgrx::Uuid as PgUuid;

use super::door::Citus;
use super::transfer_locations::{self, TransferLocation};
use crate::tables::door::RecordTables;
use crate::tables::rows::buckets::values_by_type;
use crate::tables::rows::claims::{
    ClaimPart, PageEnd, StoredClaim, TRANSFERRING, claim, claim_page, columns, read_page,
};
use pg::spi::{self, Connection, View};
use pg::statement::shared_statement;
use pg::uuid::{from_pg_uuid, pg_uuid};

/// The columns of claims, with the cell under which they are stored.
macro_rules! distributed_columns {
    () => {
        concat!("SELECT ", columns!("c.creator_id"), " FROM claims.claims c WHERE ")
    };
}

/// A page of the claims stored under cell $1, without those that the transfers $9 have taken.
macro_rules! distributed_page {
    ($range:ident) => {
        concat!(
            distributed_columns!(), "c.creator_id = $1 AND ", not_taken!("$9"), " AND ",
            claim_page!(of $range), claim_page!(order)
        )
    };
}

/// A page of the claims stored under cell $1 that transfer $9 holds.
macro_rules! arrived_page {
    ($range:ident) => {
        concat!(
            distributed_columns!(), "c.creator_id = $1 AND c.status = 4 AND c.lease_uuid = $9 AND ",
            claim_page!(of $range), claim_page!(order)
        )
    };
}

shared_statement! {
    CLAIMS(INT4OID, TEXTARRAYOID) = concat!(
        distributed_columns!(), "c.bucket_type = $1 AND c.bucket_value = ANY ($2) AND c.creator_id <> -1");
    OWN_PAGE(INT8OID, INT4OID, TEXTOID, INT4OID, TEXTOID, INT4OID, INT8OID, INT4ARRAYOID, UUIDARRAYOID) = distributed_page!(range);
    LAST_OWN_PAGE(INT8OID, INT4OID, TEXTOID, INT4OID, TEXTOID, TEXTOID, INT8OID, INT4ARRAYOID, UUIDARRAYOID) = distributed_page!(last_range);
    ARRIVED_PAGE(INT8OID, INT4OID, TEXTOID, INT4OID, TEXTOID, INT4OID, INT8OID, INT4ARRAYOID, UUIDOID) = arrived_page!(range);
    LAST_ARRIVED_PAGE(INT8OID, INT4OID, TEXTOID, INT4OID, TEXTOID, TEXTOID, INT8OID, INT4ARRAYOID, UUIDOID) = arrived_page!(last_range);
    /// Returns source types. Citus plans no recursive queries, so this reads all claims of the cells.
    SOURCE_TYPES_FROM(INT8ARRAYOID, INT4OID) =
        "SELECT DISTINCT c.source_type FROM claims.claims c WHERE c.creator_id = ANY ($1) AND c.source_type >= $2 ORDER BY 1";
}

impl RecordTables for Citus {
    fn claims(&self, connection: &Connection, buckets: &[Bucket]) -> Vec<StoredClaim> {
        let of_type = |(bucket_type, values): (i32, Vec<&str>)| {
            connection.run(&CLAIMS, View::Caller, [bucket_type.into(), values.into()]).map(claim)
        };
        let stored: Vec<_> = values_by_type(buckets).into_iter().flat_map(of_type).collect();
        let held = stored.iter().filter(|claim| claim.status == TRANSFERRING).filter_map(|claim| claim.lease_uuid);
        let locations = transfer_locations::locations(connection, held.map(from_pg_uuid).collect());
        let cell_of = |transfer: PgUuid| locations.get(&from_pg_uuid(transfer)).map(|location| location.cell_id);
        let found: HashMap<Bucket, StoredClaim> =
            stored.into_iter().map(|claim| (claim.bucket(), claim.located(cell_of))).collect();
        buckets.iter().filter_map(|bucket| found.get(bucket).cloned()).collect()
    }

    fn claim_page(&self, connection: &Connection, cell_id: i64, part: &ClaimPart, limit: i64) -> Vec<StoredClaim> {
        transfer_locations::while_unmoved(connection, cell_id, |locations| {
            read_page(part, limit, |end, source_id, limit| {
                section(connection, cell_id, locations, part, (end, source_id, limit))
            })
        })
    }

    fn source_types_from(&self, connection: &Connection, cell_id: i64, first: i32) -> Vec<i32> {
        transfer_locations::once(connection, cell_id, |locations| {
            let brought =
                locations.iter().filter(|location| location.has_brought_to(cell_id)).map(|location| location.from_cell);
            let stored_as: Vec<i64> = [cell_id].into_iter().chain(brought).collect();
            let values = [stored_as.into(), first.into()];
            connection.run(&SOURCE_TYPES_FROM, View::Caller, values).map(|row| row.must(1))
        })
    }

    fn claim(&self, bucket_type: i32, bucket_value: &str) -> Option<StoredClaim> {
        let bucket = Bucket { bucket_type, value: bucket_value.into() };
        spi::connect_as_owner(|connection| self.claims(connection, &[bucket]).pop())
    }
}

/// Reads a section of a page: the cell's own claims, and those that transfers have brought, which are stored under other cells.
fn section(
    connection: &Connection,
    cell_id: i64,
    locations: &[TransferLocation],
    part: &ClaimPart,
    (end, source_id, limit): (PageEnd, &str, i64),
) -> Vec<StoredClaim> {
    let (own, arrived) = match end {
        PageEnd::Length(_) => (&OWN_PAGE, &ARRIVED_PAGE),
        PageEnd::SourceId(_) => (&LAST_OWN_PAGE, &LAST_ARRIVED_PAGE),
    };
    let from = |stored_as: i64| part.values(stored_as, source_id, end, limit).into_iter();
    let mut found = connection
        .run(own, View::Caller, from(cell_id).chain([transfer_locations::taken_from(cell_id, locations)]))
        .map(claim);
    let brought = locations.iter().filter(|location| location.has_brought_to(cell_id));
    let mut is_ordered = true;
    for location in brought {
        let values = from(location.from_cell).chain([pg_uuid(location.transfer).into()]);
        let rows = connection.run(arrived, View::Caller, values);
        found.extend(rows.map(claim).into_iter().map(|claim| StoredClaim { cell_id, ..claim }));
        is_ordered = false;
    }
    if !is_ordered {
        let key = |claim: &StoredClaim| {
            let length = claim.source_id.chars().count();
            (length, claim.source_id.clone(), claim.bucket_type, claim.bucket_value.clone())
        };
        found.sort_by_cached_key(key);
        found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    }
    found
}
