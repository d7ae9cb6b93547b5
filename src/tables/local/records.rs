//! Statements that read claims for callers.

use std::collections::HashMap;

use claims_model::{Bucket, NOBODY};
use pgrx::Uuid as PgUuid;

use super::door::Local;
use super::transfers;
use crate::pg::index::{self, Unusable};
use crate::pg::spi::{self, Connection, View};
use crate::pg::statement::statement;
use crate::tables::door::RecordTables;
use crate::tables::rows::buckets::values_by_type;
use crate::tables::rows::claims::{
    BUCKET_INDEX, ClaimPart, PageEnd, StoredClaim, bucket_key_parts, claim, claim_page, columns, read_page,
};
use crate::tables::rows::known_or_raised;

statement! {
    /// Returns claims of one bucket type by their values, with the cells under which they are stored.
    CLAIMS(INT4OID, TEXTARRAYOID) = concat!(
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

impl RecordTables for Local {
    fn claim(&self, bucket_type: i32, bucket_value: &str) -> Option<StoredClaim> {
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
            connection.run(&CLAIMS, View::Caller, [bucket_type.into(), values.into()]).map(claim)
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
            connection.run(statement, View::Caller, part.values(cell_id, source_id, end, limit)).map(claim)
        })
    }

    fn source_types_from(&self, connection: &Connection, cell_id: i64, first: i32) -> Vec<i32> {
        connection.run(&SOURCE_TYPES_FROM, View::Caller, [cell_id.into(), first.into()]).map(|row| row.must(1))
    }
}
