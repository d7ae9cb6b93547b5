//! Statements on distributed claims.

use std::collections::HashMap;

use claims_model::{Bucket, Claim, NOBODY, Reference};
use uuid::Uuid;

use super::transfer_locations;
use crate::service::claims::statements::{self as shared, ClaimOrigin, INTO_CLAIMS};
use crate::service::claims::{ACTIVE, FoundClaim, NewClaim, TRANSFERRING, kept_back, values_by_type};
use pg::clock::Moment;
use pg::query::{Arguments, query, record};
use pg::spi::{Connection, Value};

record! {
    /// An existing claim, its status, and the lease or transfer that holds it.
    struct StandingRow {
        bucket_value: String,
        subject_type: i32,
        subject_id: String,
        source_type: i32,
        source_id: String,
        creator_id: i64,
        status: i16,
        lease_uuid: Option<Uuid>,
        given_up_by: Option<i64>,
        available_at: Option<Moment>,
    }

    struct LeaseRow { uuid: Uuid, created_at: Moment, creator_id: i64 }
}

query! {
    fn standing(bucket_type: i32, bucket_values: &[&str]) -> Vec<StandingRow> = [Latest Anywhere]
        "SELECT c.bucket_value, c.subject_type, c.subject_id, c.source_type, c.source_id, c.creator_id, c.status, c.lease_uuid,
                c.given_up_by, c.available_at
           FROM claims.claims c WHERE c.bucket_value = ANY (:bucket_values) AND c.bucket_type = :bucket_type";
    fn outstanding(leases: &[Uuid]) -> Vec<LeaseRow> = [Latest Anywhere]
        "SELECT l.uuid, l.created_at, l.creator_id FROM claims.claim_leases l WHERE l.uuid = ANY (:leases)";
}

/// Number of rows that one statement inserts.
const ROWS: usize = 200;

/// Returns the values of the parameters that the rows of [row] share.
pub(super) fn origin_values(origin: ClaimOrigin) -> [Value; 3] {
    [origin.lease.into(), origin.cell_id.into(), origin.at.into()]
}

/// Creates claims, and returns their number. INSERT … SELECT would turn every error into XX000.
pub fn put(connection: &Connection, origin: ClaimOrigin, creates: &[&Claim]) -> usize {
    match creates {
        [only] if origin.lease.is_some() => shared::create_on_shard(connection, origin, only),
        _ => creates.chunks(ROWS).map(|rows| put_rows(connection, origin, rows)).sum(),
    }
}

/// Returns a row of VALUES for a claim with a status under the lease, the cell and the time of [origin_values]. Its eight values follow the
/// first `values` ones.
pub(super) fn row(status: i16, values: usize) -> String {
    let (lease, cell, at) = (1, 2, 3);
    let column = |column: usize| values + column;
    let [uuid, bucket_type, value, subject_type, subject, source_type, source, display] =
        [column(1), column(2), column(3), column(4), column(5), column(6), column(7), column(8)];
    format!(
        "(${uuid}, ${bucket_type}, ${value}, ${subject_type}, ${subject}, ${source_type}, ${source}, ${cell}, ${lease}, {status}, ${at}, ${at},
          ${display})"
    )
}

fn put_rows(connection: &Connection, origin: ClaimOrigin, rows: &[&Claim]) -> usize {
    let values = (0..rows.len()).map(|nth| row(origin.status(), 3 + 8 * nth)).collect::<Vec<_>>().join(", ");
    let text = format!("{INTO_CLAIMS}VALUES {values} RETURNING claims.is_current_shard(tableoid)");
    let values = rows.iter().flat_map(|claim| NewClaim::of(claim).values());
    connection.run_text(&text, origin_values(origin).into_iter().chain(values)).count()
}

/// Returns the claims that are committed on buckets now. A second query asks for their leases and transfers, which are on other
/// nodes.
pub fn standing_on(connection: &Connection, buckets: &[&Bucket]) -> HashMap<Bucket<'static>, FoundClaim> {
    let of_type = |(bucket_type, values): (i32, Vec<&str>)| {
        let rows = standing(connection, bucket_type, &values).into_iter();
        rows.map(move |row| (bucket_type, row))
    };
    let standing: Vec<_> = values_by_type(buckets.iter().copied()).into_iter().flat_map(of_type).collect();
    let holders = |is_transfer: bool| {
        let meant = standing.iter().filter(move |(_, one)| (one.status == TRANSFERRING) == is_transfer);
        meant.filter_map(|(_, one)| one.lease_uuid)
    };
    let locations = transfer_locations::locations(connection, holders(true).collect());
    let mut leases: Vec<Uuid> = holders(false).collect();
    leases.sort_unstable();
    leases.dedup();
    let leases: HashMap<Uuid, LeaseRow> = match leases.is_empty() {
        true => HashMap::new(),
        false => outstanding(connection, &leases).into_iter().map(|row| (row.uuid, row)).collect(),
    };
    // A lease that is gone by now has held the name.
    let cell_of = |lease| leases.get(&lease).map_or(NOBODY, |lease| lease.creator_id);
    let found = |(bucket_type, row): (i32, StandingRow)| {
        let location =
            row.lease_uuid.filter(|_| row.status == TRANSFERRING).and_then(|transfer| locations.get(&transfer));
        let found = FoundClaim {
            holder_cell_id: location.map_or(row.creator_id, |location| location.cell_id),
            active: row.status == ACTIVE,
            subject: Reference { type_id: row.subject_type, id: row.subject_id.into() },
            source: Reference { type_id: row.source_type, id: row.source_id.into() },
            lease_made_at: match location {
                Some(location) => Some(location.created_at),
                None => row.lease_uuid.and_then(|lease| Some(leases.get(&lease)?.created_at)),
            },
            other_cell_id: location.map(|location| location.other_cell_id),
            kept: kept_back(row.given_up_by, row.available_at, row.lease_uuid.map(cell_of)),
        };
        (Bucket { bucket_type, value: row.bucket_value.into() }, found)
    };
    standing.into_iter().map(found).collect()
}
