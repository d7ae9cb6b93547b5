//! Statements that read claims for callers.

use std::collections::HashMap;
use std::ops::ControlFlow;

use claims_model::{Bucket, NOBODY};
use pgrx::Uuid as PgUuid;

use super::statements::columns;
use super::tables::RecordTables;
use crate::kernel::direct::layouts::{CLAIMS, LEASES, LEASES_OF_CELL, claim};
use crate::kernel::error::known_or_raised;
use crate::kernel::tables::Local;
use crate::service::claims::{BUCKET_INDEX, ClaimPart, PageEnd, PageStart, StoredClaim, bucket_key_parts, read_page};
use pg::clock::Moment;
use pg::direct::{self, Bound, Reading, Row as StoredRow, Table};
use pg::index::{self, KeyComparison, KeyPart, KeyValue, Unusable};
use pg::query::query;
use pg::spi::{self, Connection};
use pg::uuid::from_pg_uuid;

/// The transfers `t` whose claims belong to a cell and are stored under another cell. OFFSET 0 keeps the planner from beginning with the
/// claims.
macro_rules! arrived {
    () => {
        "(SELECT t.transfer_uuid, t.from_cell FROM claims.cell_transfers t
           WHERE t.cell_id = :cell_id AND t.cell_id <> t.from_cell AND t.ended_at IS NULL OFFSET 0) t"
    };
}

/// A page of the claims at a cell, of a source type: its own, without those that a transfer has moved to another cell (the subquery for
/// these transfers runs once, not for each claim), and those that transfers have brought. Each half is read in the order of the index, up
/// to the last claim of a source. With the complete order instead, the planner might sort all claims after the cursor while statistics do
/// not know how many claims a transfer holds.
macro_rules! page {
    ($range:literal) => {
        concat!(
            "SELECT * FROM (
                (", columns!(":cell_id"), "c.creator_id = :cell_id AND ", page!(where $range), "
                    AND (c.status <> 4
                         OR (c.lease_uuid <> ALL (ARRAY(SELECT t.transfer_uuid FROM claims.cell_transfers t
                                                         WHERE t.from_cell = :cell_id AND t.cell_id <> t.from_cell AND t.ended_at IS NULL)))
                            IS NOT FALSE)", page!(by_source), ")
                UNION ALL
                (SELECT b.* FROM ", arrived!(), " CROSS JOIN LATERAL (
                    ", columns!(":cell_id"), "c.creator_id = t.from_cell AND c.status = 4 AND c.lease_uuid = t.transfer_uuid AND ",
                    page!(where $range), page!(by_source), ") b)) c
              ORDER BY length(c.source_id), c.source_id, c.bucket_type, c.bucket_value LIMIT :most"
        )
    };
    (where $range:literal) => {
        concat!("c.source_type = :source_type AND (:bucket_types IS NULL OR c.bucket_type = ANY (:bucket_types)) AND ", $range)
    };
    (by_source) => {
        " ORDER BY length(c.source_id), c.source_id FETCH FIRST (:most) ROWS WITH TIES"
    };
}

query! {
    /// Returns at most `most` claims of a cell and a source type from a source id on; at that source id, those after a bucket. The source
    /// ids are not longer than `longest`.
    fn page(cell_id: i64, longest: i32; ..from: PageStart) -> Vec<StoredClaim> = [Caller] page!(
        "(length(c.source_id), c.source_id) >= (length(:source_id), :source_id) AND length(c.source_id) <= :longest
         AND ((length(c.source_id), c.source_id) > (length(:source_id), :source_id)
              OR (c.bucket_type, c.bucket_value) > (:bucket_type, :bucket_value))");
    /// Like [`page`], for source ids as long as the last one and up to it. An index scan does not stop at the end of a row comparison.
    fn last_page(cell_id: i64, last: &str; ..from: PageStart) -> Vec<StoredClaim> = [Caller] page!(
        "length(c.source_id) = length(:last) AND c.source_id >= :source_id AND c.source_id <= :last
         AND (c.source_id > :source_id OR (c.bucket_type, c.bucket_value) > (:bucket_type, :bucket_value))");
    /// Returns the source types of a cell's claims from `first` on, by a loose index scan. It includes claims that transfers have brought
    /// from other cells.
    fn source_types(cell_id: i64, first: i32) -> Vec<i32> = [Caller] concat!(
        "SELECT DISTINCT h.source_type
           FROM (SELECT :cell_id AS cell_id UNION ALL SELECT t.from_cell FROM ", arrived!(), ") AS stored
          CROSS JOIN LATERAL (
            WITH RECURSIVE hop AS (
                (SELECT c.source_type FROM claims.claims c WHERE c.creator_id = stored.cell_id AND c.source_type >= :first
                  ORDER BY c.creator_id, c.source_type LIMIT 1)
                UNION ALL
                SELECT (SELECT c.source_type FROM claims.claims c WHERE c.creator_id = stored.cell_id AND c.source_type > hop.source_type
                         ORDER BY c.creator_id, c.source_type LIMIT 1)
                  FROM hop WHERE hop.source_type IS NOT NULL)
            SELECT source_type FROM hop WHERE source_type IS NOT NULL) AS h
          ORDER BY 1");
    fn cell_of_row(transfer: PgUuid) -> Option<i64> = [Caller]
        "SELECT t.cell_id FROM claims.cell_transfers t WHERE t.transfer_uuid = :transfer";
}

/// The unique index on transfers, for messages.
const TRANSFER_INDEX: &str = "claims.cell_transfers (transfer_uuid)";

/// Returns a claim that was found by its key.
fn stored_claim(row: &StoredRow) -> StoredClaim {
    StoredClaim {
        uuid: row.must(claim::UUID),
        bucket_type: row.must(claim::BUCKET_TYPE),
        bucket_value: row.must(claim::BUCKET_VALUE),
        subject_type: row.must(claim::SUBJECT_TYPE),
        subject_id: row.must(claim::SUBJECT_ID),
        source_type: row.must(claim::SOURCE_TYPE),
        source_id: row.must(claim::SOURCE_ID),
        cell_id: row.must(claim::CREATOR_ID),
        lease_uuid: row.get(claim::LEASE_UUID),
        status: row.must(claim::STATUS),
        created_at: row.must(claim::CREATED_AT),
        updated_at: row.must(claim::UPDATED_AT),
        display_value: row.get(claim::DISPLAY_VALUE),
    }
}

/// Looks a claim up in a table that is not as the extension has created it, by the names of its columns.
fn look_up(bucket_type: i32, bucket_value: &str) -> Result<Option<StoredClaim>, Unusable> {
    index::find(c"claims", &bucket_key_parts(bucket_value, bucket_type), |row| StoredClaim {
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
    })
}

impl RecordTables for Local {
    fn claim(&self, bucket_type: i32, bucket_value: &str) -> Result<Option<StoredClaim>, Unusable> {
        let key = [KeyValue::Text(bucket_value), KeyValue::Int4(bucket_type)];
        let found = direct::read([&CLAIMS], |[claims]| {
            claims.look_up(Reading::Caller, |rows| rows.find(key, |_| true).map(|row| stored_claim(&row)))
        });
        let found = found.map_or_else(|| look_up(bucket_type, bucket_value), Ok);
        // A reserved name is no cell's claim.
        let owned = found.map(|found| found.filter(|claim| claim.cell_id != NOBODY));
        let located = |claim: StoredClaim| {
            let cell = claim.transfer().map(cell_of).transpose()?;
            Ok(claim.located(|_| cell.flatten()))
        };
        match owned.and_then(|owned| owned.map(located).transpose()) {
            // The index is newer than this query's snapshot. The planner has other plans.
            Err(Unusable::TooNew) => {
                let bucket = Bucket { bucket_type, value: bucket_value.into() };
                Ok(spi::connect_as_owner(|connection| self.claims(connection, &[bucket]).pop()))
            }
            Err(Unusable::Distributed) => Err(Unusable::Distributed),
            found => Ok(known_or_raised(found, BUCKET_INDEX)),
        }
    }

    /// A transfer holds many claims, so its cell is looked up once for all of them.
    fn located(&self, _: &Connection, stored: Vec<StoredClaim>) -> Vec<StoredClaim> {
        let mut cells = HashMap::new();
        let look_up = |transfer| known_or_raised(cell_of(transfer), TRANSFER_INDEX);
        let mut cell_of = |transfer: PgUuid| *cells.entry(*transfer.as_bytes()).or_insert_with(|| look_up(transfer));
        stored.into_iter().map(|claim| claim.located(&mut cell_of)).collect()
    }

    fn claim_page(&self, connection: &Connection, cell_id: i64, part: &ClaimPart, limit: i64) -> Vec<StoredClaim> {
        read_page(part, limit, |end, from| match end {
            PageEnd::Length(longest) => page(connection, cell_id, longest, from),
            PageEnd::SourceId(last) => last_page(connection, cell_id, last, from),
        })
    }

    fn source_types_from(&self, connection: &Connection, cell_id: i64, first: i32) -> Vec<i32> {
        source_types(connection, cell_id, first)
    }

    fn may_have_leases(&self, cell_id: i64, from: Moment) -> bool {
        let bounds = [
            Bound { at: 0, comparison: KeyComparison::Equal, value: KeyValue::Int8(cell_id) },
            Bound { at: 1, comparison: KeyComparison::AtLeast, value: KeyValue::Time(from) },
        ];
        let look = |leases: &Table| {
            leases.scans(Reading::Caller, |scans| scans.walk(LEASES_OF_CELL, &bounds, |_| ControlFlow::Break(())))
        };
        let found = direct::read([&LEASES], |[leases]| look(leases));
        !matches!(found, Some(Ok(None)))
    }
}

/// Returns the cell that the claims of a transfer are at, in the snapshot of the calling query. Runs no statement, like the
/// lookup of the claim. The only error is that the tables are distributed.
fn cell_of(transfer: PgUuid) -> Result<Option<i64>, Unusable> {
    let key = [KeyPart { column: c"transfer_uuid", value: KeyValue::Uuid(from_pg_uuid(transfer)) }];
    match index::find(c"cell_transfers", &key, |row| row.must(c"cell_id")) {
        // The index is newer than this query's snapshot. The planner has other plans.
        Err(Unusable::TooNew) => Ok(spi::connect_as_owner(|connection| cell_of_row(connection, transfer))),
        Err(Unusable::Distributed) => Err(Unusable::Distributed),
        found => Ok(known_or_raised(found, TRANSFER_INDEX)),
    }
}
