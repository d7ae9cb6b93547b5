//! Statements that read distributed claims. A separate query asks for the transfers that hold them.

use claims_model::Bucket;
use pgrx::Uuid as PgUuid;
use uuid::Uuid;

use super::cluster::Citus;
use super::transfer_locations::{self, TransferLocation};
use crate::service::claims::{ClaimPart, PageEnd, PageStart, StoredClaim, read_page};
use crate::service::read::RecordTables;
use crate::service::read::statements::columns;
use pg::index::Unusable;
use pg::query::query;
use pg::spi::{self, Connection};
use pg::uuid::from_pg_uuid;

/// A page of the claims stored under a cell, from a source id on; at that source id, those after a bucket.
macro_rules! page {
    ($whose:literal, longest) => {
        page!($whose of "(length(c.source_id), c.source_id) >= (length(:source_id), :source_id) AND length(c.source_id) <= :longest
             AND ((length(c.source_id), c.source_id) > (length(:source_id), :source_id)
                  OR (c.bucket_type, c.bucket_value) > (:bucket_type, :bucket_value))")
    };
    ($whose:literal, last) => {
        page!($whose of "length(c.source_id) = length(:last) AND c.source_id >= :source_id AND c.source_id <= :last
             AND (c.source_id > :source_id OR (c.bucket_type, c.bucket_value) > (:bucket_type, :bucket_value))")
    };
    ($whose:literal of $range:literal) => {
        concat!(
            columns!("c.creator_id"), "c.creator_id = :stored_as AND ", $whose,
            " AND c.source_type = :source_type AND (:bucket_types IS NULL OR c.bucket_type = ANY (:bucket_types)) AND ", $range,
            " ORDER BY length(c.source_id), c.source_id, c.bucket_type, c.bucket_value LIMIT :most"
        )
    };
}

/// The cell's own claims, without those that transfers have taken.
macro_rules! own {
    ($range:ident) => {
        page!("(c.status <> 4 OR (c.lease_uuid <> ALL (:transfers)) IS NOT FALSE)", $range)
    };
}

/// The claims that a transfer holds.
macro_rules! arrived {
    ($range:ident) => {
        page!("c.status = 4 AND c.lease_uuid = :transfer", $range)
    };
}

query! {
    fn own_page(stored_as: i64, longest: i32, transfers: &[Uuid]; ..from: PageStart) -> Vec<StoredClaim> = [Caller Anywhere] own!(longest);
    /// Like [`own_page`], for source ids as long as the last one and up to it.
    fn last_own_page(stored_as: i64, last: &str, transfers: &[Uuid]; ..from: PageStart) -> Vec<StoredClaim> = [Caller Anywhere] own!(last);
    fn arrived_page(stored_as: i64, longest: i32, transfer: Uuid; ..from: PageStart) -> Vec<StoredClaim> = [Caller Anywhere] arrived!(longest);
    fn last_arrived_page(stored_as: i64, last: &str, transfer: Uuid; ..from: PageStart) -> Vec<StoredClaim> = [Caller Anywhere] arrived!(last);
    /// Returns source types. Citus plans no recursive queries, so this reads all claims of the cells.
    fn source_types(cells: &[i64], first: i32) -> Vec<i32> = [Caller Anywhere]
        "SELECT DISTINCT c.source_type FROM claims.claims c WHERE c.creator_id = ANY (:cells) AND c.source_type >= :first ORDER BY 1";
}

impl RecordTables for Citus {
    fn located(&self, connection: &Connection, stored: Vec<StoredClaim>) -> Vec<StoredClaim> {
        let transfers = stored.iter().filter_map(StoredClaim::transfer).map(from_pg_uuid).collect();
        let locations = transfer_locations::locations(connection, transfers);
        let cell_of = |transfer: PgUuid| locations.get(&from_pg_uuid(transfer)).map(|location| location.cell_id);
        stored.into_iter().map(|claim| claim.located(cell_of)).collect()
    }

    fn claim_page(&self, connection: &Connection, cell_id: i64, part: &ClaimPart, limit: i64) -> Vec<StoredClaim> {
        transfer_locations::while_unmoved(connection, cell_id, |locations| {
            read_page(part, limit, |end, from| section(connection, cell_id, locations, end, from))
        })
    }

    fn source_types_from(&self, connection: &Connection, cell_id: i64, first: i32) -> Vec<i32> {
        transfer_locations::once(connection, cell_id, |locations| {
            let brought =
                locations.iter().filter(|location| location.has_brought_to(cell_id)).map(|location| location.from_cell);
            let stored_as: Vec<i64> = [cell_id].into_iter().chain(brought).collect();
            source_types(connection, &stored_as, first)
        })
    }

    fn claim(&self, bucket_type: i32, bucket_value: &str) -> Result<Option<StoredClaim>, Unusable> {
        let bucket = Bucket { bucket_type, value: bucket_value.into() };
        Ok(spi::connect_as_owner(|connection| self.claims(connection, &[bucket]).pop()))
    }
}

/// Reads a section of a page: the cell's own claims, and those that transfers have brought, which are stored under other cells.
fn section(
    connection: &Connection,
    cell_id: i64,
    locations: &[TransferLocation],
    end: PageEnd,
    from: PageStart,
) -> Vec<StoredClaim> {
    let (taken, most) = (transfer_locations::taken_from(cell_id, locations), from.most);
    let mut found = match end {
        PageEnd::Length(longest) => own_page(connection, cell_id, longest, &taken, from),
        PageEnd::SourceId(last) => last_own_page(connection, cell_id, last, &taken, from),
    };
    let mut is_ordered = true;
    for location in locations.iter().filter(|location| location.has_brought_to(cell_id)) {
        let (cell, transfer) = (location.from_cell, location.transfer);
        let rows = match end {
            PageEnd::Length(longest) => arrived_page(connection, cell, longest, transfer, from),
            PageEnd::SourceId(last) => last_arrived_page(connection, cell, last, transfer, from),
        };
        found.extend(rows.into_iter().map(|claim| StoredClaim { cell_id, ..claim }));
        is_ordered = false;
    }
    if !is_ordered {
        let key = |claim: &StoredClaim| {
            let length = claim.source_id.chars().count();
            (length, claim.source_id.clone(), claim.bucket_type, claim.bucket_value.clone())
        };
        found.sort_by_cached_key(key);
        found.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    }
    found
}
