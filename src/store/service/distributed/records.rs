//! Statements that read claims which are spread over the nodes of a Citus cluster: where transfers have them is asked apart.

use super::transfers::{self, Place};
use crate::pg::spi::{Connection, Value, View};
use crate::pg::statement::shared_statement;
use crate::pg::uuid::pg_uuid;
use crate::store::service::claim_rows::{PageEnd, StoredClaim, claim, claim_page, columns};

/// Claims with the cells that they are stored as.
macro_rules! spread_columns {
    () => {
        concat!("SELECT ", columns!("c.creator_id"), " FROM claims.claims c WHERE ")
    };
}

/// A page of cell $1's own claims, but for those that transfers $9 have taken.
macro_rules! spread_page {
    ($range:ident) => {
        concat!(
            spread_columns!(), "c.creator_id = $1 AND ", not_taken!("$9"), " AND ",
            claim_page!(of $range), claim_page!(order)
        )
    };
}

/// A page of the claims of cell $1 that transfer $9 holds.
macro_rules! arrived_page {
    ($range:ident) => {
        concat!(
            spread_columns!(), "c.creator_id = $1 AND c.status = 4 AND c.lease_uuid = $9 AND ",
            claim_page!(of $range), claim_page!(order)
        )
    };
}

shared_statement! {
    CLAIMS(INT4OID, TEXTARRAYOID) = concat!(
        spread_columns!(), "c.bucket_type = $1 AND c.bucket_value = ANY ($2) AND c.creator_id <> -1");
    OWN_PAGE(INT8OID, INT4OID, TEXTOID, INT4OID, TEXTOID, INT4OID, INT8OID, INT4ARRAYOID, UUIDARRAYOID) = spread_page!(range);
    LAST_OWN_PAGE(INT8OID, INT4OID, TEXTOID, INT4OID, TEXTOID, TEXTOID, INT8OID, INT4ARRAYOID, UUIDARRAYOID) = spread_page!(last_range);
    ARRIVED_PAGE(INT8OID, INT4OID, TEXTOID, INT4OID, TEXTOID, INT4OID, INT8OID, INT4ARRAYOID, UUIDOID) = arrived_page!(range);
    LAST_ARRIVED_PAGE(INT8OID, INT4OID, TEXTOID, INT4OID, TEXTOID, TEXTOID, INT8OID, INT4ARRAYOID, UUIDOID) = arrived_page!(last_range);
    /// Citus plans no recursive statement.
    SOURCE_TYPES_FROM(INT8ARRAYOID, INT4OID) =
        "SELECT DISTINCT c.source_type FROM claims.claims c WHERE c.creator_id = ANY ($1) AND c.source_type >= $2 ORDER BY 1";
}

/// A part of a page: the cell's own, and those that transfers have brought, which are stored as others'.
pub fn part(
    connection: &Connection,
    cell_id: i64,
    places: &[Place],
    end: PageEnd,
    from: impl Fn(i64) -> [Value; 8],
    limit: i64,
) -> Vec<StoredClaim> {
    let (own, arrived) = match end {
        PageEnd::Length(_) => (&OWN_PAGE, &ARRIVED_PAGE),
        PageEnd::SourceId(_) => (&LAST_OWN_PAGE, &LAST_ARRIVED_PAGE),
    };
    let values = from(cell_id).into_iter().chain([transfers::taken_from(cell_id, places)]);
    let mut found = connection.run(own, View::Caller, values).map(claim);
    let brought = places.iter().filter(|place| place.has_brought_to(cell_id));
    let mut is_ordered = true;
    for place in brought {
        let values = from(place.from_cell).into_iter().chain([pg_uuid(place.transfer).into()]);
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

/// The source types of a cell's claims, from one on; also those of cells from which transfers have brought it claims.
pub fn source_types_from(connection: &Connection, cell_id: i64, first: i32) -> Vec<i32> {
    transfers::once(connection, cell_id, |places| {
        let brought = places.iter().filter(|place| place.has_brought_to(cell_id)).map(|place| place.from_cell);
        let stored_as: Vec<i64> = [cell_id].into_iter().chain(brought).collect();
        let values = [stored_as.into(), first.into()];
        connection.run(&SOURCE_TYPES_FROM, View::Caller, values).map(|row| row.must(1))
    })
}
