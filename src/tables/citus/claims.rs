//! Statements on distributed claims.

use std::collections::HashMap;

use claims_model::{Bucket, Claim, Reference};
use pgrx::Uuid as PgUuid;
use uuid::Uuid;

use super::transfer_locations;
use crate::tables::rows::buckets::{displayed_values, values_by_type};
use crate::tables::rows::claims::{ACTIVE, FoundClaim, HeldFor, TRANSFERRING};
use crate::tables::rows::leases::NewLease;
use pg::clock::Moment;
use pg::spi::{Connection, Value, View};
use pg::statement::{shard_statement, shared_statement};
use pg::uuid::{from_pg_uuid, pg_uuid, pg_uuids};

shared_statement! {
    STANDING(INT4OID, TEXTARRAYOID) =
        "SELECT c.bucket_value, c.subject_type, c.subject_id, c.source_type, c.source_id, c.creator_id, c.status, c.lease_uuid
           FROM claims.claims c WHERE c.bucket_value = ANY ($2) AND c.bucket_type = $1";
    MADE_AT(UUIDARRAYOID) = "SELECT l.uuid, l.created_at FROM claims.claim_leases l WHERE l.uuid = ANY ($1)";
}

shard_statement! {
    CREATE(UUIDOID, INT8OID, TIMESTAMPTZOID, UUIDOID, INT4OID, TEXTOID, INT4OID, TEXTOID, INT4OID, TEXTOID, TEXTOID) =
        concat!(create_claim!(), " RETURNING claims.is_current_shard(tableoid)");
    REPLACE(UUIDOID, TIMESTAMPTZOID, UUIDOID, INT4OID, TEXTOID, INT4OID, TEXTOID, INT4OID, TEXTOID, TEXTOID) = replace_claim!();
}

/// Number of rows that one statement inserts.
const ROWS: usize = 200;

/// The lease, if there is one, the cell and the time of new claims.
#[derive(Clone, Copy)]
pub struct Origin {
    lease: Option<Uuid>,
    cell_id: i64,
    at: Moment,
}

impl Origin {
    /// Returns the origin of claims that a lease creates.
    pub fn lease(lease: &NewLease) -> Self {
        Origin { lease: Some(lease.uuid), cell_id: lease.cell_id, at: lease.made_at }
    }

    /// Returns the origin of claims that are ACTIVE at once.
    pub fn cell(cell_id: i64) -> Self {
        Origin { lease: None, cell_id, at: Moment::now() }
    }

    pub fn values(&self) -> [Value; 3] {
        [self.lease.map(pg_uuid).into(), self.cell_id.into(), self.at.into()]
    }

    pub fn status(&self) -> i16 {
        if self.lease.is_some() { HeldFor::Creating as i16 } else { ACTIVE }
    }
}

/// Creates claims, and returns their number. INSERT … SELECT would turn every error into XX000.
pub fn put(connection: &Connection, origin: Origin, creates: &[&Claim]) -> usize {
    match creates {
        [only] if origin.lease.is_some() => {
            let values = origin.values().into_iter().chain(displayed_values(only));
            connection.run(&CREATE, View::Statement, values).count()
        }
        _ => creates.chunks(ROWS).map(|rows| put_rows(connection, origin, rows)).sum(),
    }
}

/// The beginning of an INSERT of claims, with its columns.
pub(super) const INTO_CLAIMS: &str = insert_into!("claims");

/// Returns a row of VALUES for a claim with a status under the lease $1 of cell $2 at $3. Its eight values follow the first `values`
/// ones.
pub(super) fn row(status: i16, values: usize) -> String {
    let at = |column: usize| values + column;
    let [uuid, bucket_type, value, subject_type, subject, source_type, source, display] =
        [at(1), at(2), at(3), at(4), at(5), at(6), at(7), at(8)];
    format!(
        "(${uuid}, ${bucket_type}, ${value}, ${subject_type}, ${subject}, ${source_type}, ${source}, $2, $1, {status}, $3, $3, ${display})"
    )
}

fn put_rows(connection: &Connection, origin: Origin, rows: &[&Claim]) -> usize {
    let values = (0..rows.len()).map(|nth| row(origin.status(), 3 + 8 * nth)).collect::<Vec<_>>().join(", ");
    let text = format!("{INTO_CLAIMS}VALUES {values} RETURNING claims.is_current_shard(tableoid)");
    let values = rows.iter().flat_map(|claim| displayed_values(claim));
    connection.run_text(&text, origin.values().into_iter().chain(values)).count()
}

/// Replaces a claim under a lease in place. Returns the number of claims replaced.
pub fn replace(connection: &Connection, lease: Uuid, claim: &Claim, at: Moment) -> usize {
    let key: [Value; 2] = [pg_uuid(lease).into(), at.into()];
    connection.run(&REPLACE, View::Statement, key.into_iter().chain(displayed_values(claim))).count()
}

/// An existing claim, its status, and the lease or transfer that holds it.
struct Standing {
    bucket: Bucket<'static>,
    found: FoundClaim,
    status: i16,
    holder: Option<Uuid>,
}

/// Returns the claims that are committed on buckets now. A second query asks for their leases and transfers, which are on other
/// nodes.
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
    let locations = transfer_locations::locations(connection, holders(true).collect());
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
        let found = match locations.get(&holder).filter(|_| status == TRANSFERRING) {
            Some(location) => FoundClaim {
                holder_cell_id: location.cell_id,
                other_cell_id: Some(location.other_cell_id),
                lease_made_at: Some(location.created_at),
                ..found
            },
            None => FoundClaim { lease_made_at: made_at.get(&holder).copied(), ..found },
        };
        (bucket, found)
    };
    standing.into_iter().map(with_holder).collect()
}
