//! Statements that read distributed claims. A separate query asks for the transfers that hold them.

use std::collections::HashMap;

use claims_model::{Bucket, Reference};
use pgrx::Uuid as PgUuid;
use uuid::Uuid;

use super::cluster::Citus;
use super::transfer_locations::{self, TransferLocation};
use crate::kernel::sql_text::of_subject;
use crate::service::claims::{
    ClaimPart, PageEnd, PageStart, StoredClaim, SubjectPlace, TRANSFERRING, read_page, values_by_type,
};
use crate::service::read::RecordTables;
use pg::clock::Moment;
use pg::query::{query, scan};
use pg::spi::{self, Connection};
use pg::uuid::from_pg_uuid;

/// Claims with the cell under which they are stored.
macro_rules! claims {
    ($which:literal) => {
        concat!(claims!(of "c.creator_id"), $which)
    };
    (of $cell:literal) => {
        concat!(
            "SELECT c.uuid, c.bucket_type, c.bucket_value, c.subject_type, c.subject_id, c.source_type, c.source_id, ",
            $cell,
            " AS cell_id, c.status, c.lease_uuid, c.created_at, c.updated_at, c.display_value FROM claims.claims c WHERE "
        )
    };
}

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
            claims!("c.creator_id = :stored_as AND "), $whose,
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
    fn by_value(bucket_type: i32, bucket_values: &[&str]) -> Vec<StoredClaim> = [Caller Anywhere]
        claims!("c.bucket_type = :bucket_type AND c.bucket_value = ANY (:bucket_values) AND c.creator_id <> -1");
    fn own_page(stored_as: i64, longest: i32, transfers: &[Uuid]; ..from: PageStart) -> Vec<StoredClaim> = [Caller Anywhere] own!(longest);
    /// Like [`own_page`], for source ids as long as the last one and up to it.
    fn last_own_page(stored_as: i64, last: &str, transfers: &[Uuid]; ..from: PageStart) -> Vec<StoredClaim> = [Caller Anywhere] own!(last);
    fn arrived_page(stored_as: i64, longest: i32, transfer: Uuid; ..from: PageStart) -> Vec<StoredClaim> = [Caller Anywhere] arrived!(longest);
    fn last_arrived_page(stored_as: i64, last: &str, transfer: Uuid; ..from: PageStart) -> Vec<StoredClaim> = [Caller Anywhere] arrived!(last);
    /// Returns source types. Citus plans no recursive queries, so this reads all claims of the cells.
    fn source_types(cells: &[i64], first: i32) -> Vec<i32> = [Caller Anywhere]
        "SELECT DISTINCT c.source_type FROM claims.claims c WHERE c.creator_id = ANY (:cells) AND c.source_type >= :first ORDER BY 1";
}

scan! {
    /// Like the local statement of this name.
    fn claims_of(subject_type: i32, subject_id: &str, at: Moment, bucket_type: i32, bucket_value: &str, most: i64) -> StoredClaim = [Caller]
        concat!(claims!(of "coalesce(c.given_up_by, c.creator_id)"), of_subject!());
}

impl RecordTables for Citus {
    fn claims_of_subject(
        &self,
        connection: &Connection,
        subject: &Reference,
        before: &SubjectPlace,
        most: i64,
    ) -> Vec<StoredClaim> {
        let SubjectPlace { created_at, bucket_type, bucket_value } = before;
        let mut found: Vec<StoredClaim> = Vec::new();
        let each = &mut |claim| found.push(claim);
        claims_of(connection, subject.type_id, &subject.id, *created_at, *bucket_type, bucket_value, most, each);
        located(connection, found)
    }

    fn claims(&self, connection: &Connection, buckets: &[Bucket]) -> Vec<StoredClaim> {
        let of_type = |(bucket_type, values): (i32, Vec<&str>)| by_value(connection, bucket_type, &values);
        let stored: Vec<_> = values_by_type(buckets).into_iter().flat_map(of_type).collect();
        let located = located(connection, stored).into_iter();
        let found: HashMap<Bucket, StoredClaim> = located.map(|claim| (claim.bucket(), claim)).collect();
        buckets.iter().filter_map(|bucket| found.get(bucket).cloned()).collect()
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

    fn claim(&self, bucket_type: i32, bucket_value: &str) -> Option<StoredClaim> {
        let bucket = Bucket { bucket_type, value: bucket_value.into() };
        spi::connect_as_owner(|connection| self.claims(connection, &[bucket]).pop())
    }
}

/// Returns claims with the cells that they are at.
fn located(connection: &Connection, stored: Vec<StoredClaim>) -> Vec<StoredClaim> {
    let held = stored.iter().filter(|claim| claim.status == TRANSFERRING).filter_map(|claim| claim.lease_uuid);
    let locations = transfer_locations::locations(connection, held.map(from_pg_uuid).collect());
    let cell_of = |transfer: PgUuid| locations.get(&from_pg_uuid(transfer)).map(|location| location.cell_id);
    stored.into_iter().map(|claim| claim.located(cell_of)).collect()
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
