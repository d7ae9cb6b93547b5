//! Statements that read claims for callers.

use std::collections::HashMap;

use claims_model::{Bucket, NOBODY};
use pgrx::Uuid as PgUuid;

use super::door::Local;
use super::transfers;
use crate::direct::layouts::{CLAIMS, claim};
use crate::tables::door::RecordTables;
use crate::tables::rows::buckets::values_by_type;
use crate::tables::rows::claims::{
    self as claim_rows, BUCKET_INDEX, ClaimPart, PageEnd, StoredClaim, bucket_key_parts, claim_page, columns, read_page,
};
use crate::tables::rows::known_or_raised;
use pg::direct::{self, Reading, Row as StoredRow};
use pg::index::{self, KeyValue, Unusable};
use pg::spi::{self, Connection, View};
use pg::statement::statement;

statement! {
    /// Returns claims of one bucket type by their values, with the cells under which they are stored.
    CLAIMS_BY_VALUE(INT4OID, TEXTARRAYOID) = concat!(
        "SELECT ", columns!("c.creator_id"), " FROM claims.claims c
          WHERE c.bucket_type = $1 AND c.bucket_value = ANY ($2) AND c.creator_id <> -1");
    /// Returns a cell's claims of source type $2 from source id $3 on; at source id $3, those after bucket ($4, $5). The source
    /// ids are not longer than $6. Returns at most $7 claims, of bucket types $8 or all.
    CLAIM_PAGE(INT8OID, INT4OID, TEXTOID, INT4OID, TEXTOID, INT4OID, INT8OID, INT4ARRAYOID) = claim_page!(range);
    /// Like CLAIM_PAGE, for source ids as long as $6 and up to $6. An index scan does not stop at the end of a row comparison.
    LAST_CLAIM_PAGE(INT8OID, INT4OID, TEXTOID, INT4OID, TEXTOID, TEXTOID, INT8OID, INT4ARRAYOID) = claim_page!(last_range);
    /// Returns the source types of a cell's claims from $2 on, by a loose index scan. It includes claims that transfers have
    /// brought from other cells.
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
    fn claim(&self, bucket_type: i32, bucket_value: &str) -> Option<StoredClaim> {
        let key = [KeyValue::Text(bucket_value), KeyValue::Int4(bucket_type)];
        let found = direct::read([&CLAIMS], |[claims]| {
            claims.look_up(Reading::Caller, |rows| rows.find(key, |_| true).map(|row| stored_claim(&row)))
        });
        let found = found.map_or_else(|| look_up(bucket_type, bucket_value), Ok);
        match found {
            // The index is newer than this query's snapshot. The planner has other plans.
            Err(Unusable::TooNew) => {
                let bucket = Bucket { bucket_type, value: bucket_value.into() };
                spi::connect_as_owner(|connection| self.claims(connection, &[bucket]).pop())
            }
            // A reserved name is no cell's claim.
            found => known_or_raised(found, BUCKET_INDEX)
                .filter(|claim| claim.cell_id != NOBODY)
                .map(|claim| claim.located(transfers::cell_of)),
        }
    }

    fn claims(&self, connection: &Connection, buckets: &[Bucket]) -> Vec<StoredClaim> {
        let of_type = |(bucket_type, values): (i32, Vec<&str>)| {
            connection.run(&CLAIMS_BY_VALUE, View::Caller, [bucket_type.into(), values.into()]).map(claim_rows::claim)
        };
        let stored = values_by_type(buckets).into_iter().flat_map(of_type);
        // A transfer holds many claims, so its cell is looked up once for all of them.
        let mut transfers: HashMap<[u8; 16], Option<i64>> = HashMap::new();
        let mut cell_of =
            |transfer: PgUuid| *transfers.entry(*transfer.as_bytes()).or_insert_with(|| transfers::cell_of(transfer));
        let found: HashMap<Bucket, StoredClaim> =
            stored.map(|claim| (claim.bucket(), claim.located(&mut cell_of))).collect();
        buckets.iter().filter_map(|bucket| found.get(bucket).cloned()).collect()
    }

    fn claim_page(&self, connection: &Connection, cell_id: i64, part: &ClaimPart, limit: i64) -> Vec<StoredClaim> {
        read_page(part, limit, |end, source_id, limit| {
            let statement = match end {
                PageEnd::Length(_) => &CLAIM_PAGE,
                PageEnd::SourceId(_) => &LAST_CLAIM_PAGE,
            };
            connection.run(statement, View::Caller, part.values(cell_id, source_id, end, limit)).map(claim_rows::claim)
        })
    }

    fn source_types_from(&self, connection: &Connection, cell_id: i64, first: i32) -> Vec<i32> {
        connection.run(&SOURCE_TYPES_FROM, View::Caller, [cell_id.into(), first.into()]).map(|row| row.must(1))
    }
}
