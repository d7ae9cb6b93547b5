//! `get_record` and `get_records`: who owns a name, and where to find them.

use claims_model::batch::bucket_list;
use claims_model::limits::PAGE_BYTES;
use claims_model::types::Kind;
use claims_model::{BadInput, Problem, id};
use pgrx::Uuid as PgUuid;
use pgrx::datum::TimestampWithTimeZone;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::access;
use crate::error::ClaimsError;
use crate::pg::jsonb::Jsonb;
use crate::pg::spi;
use crate::store::catalog::{self, Catalog};
use crate::store::service::records::{self, StoredClaim};

/// Buckets that one call may ask for.
const MAX_BUCKETS: usize = 10_000;

/// One row of the answer, in the order of its columns.
type Routed = (
    PgUuid,
    Option<String>,
    String,
    Option<String>,
    String,
    Option<String>,
    String,
    i64,
    &'static str,
    Option<PgUuid>,
    TimestampWithTimeZone,
    TimestampWithTimeZone,
    Option<String>,
    Option<String>,
    Option<String>,
);

#[pg_extern(name = "get_record", schema = "claims", security_definer, stable, parallel_safe)]
#[search_path(pg_catalog, pg_temp)]
#[allow(clippy::type_complexity)]
fn get_record_2(
    bucket_type: Option<String>,
    bucket_value: Option<String>,
) -> Result<
    TableIterator<
        'static,
        (
            name!(uuid, PgUuid),
            name!(bucket_type, Option<String>),
            name!(bucket_value, String),
            name!(subject_type, Option<String>),
            name!(subject_id, String),
            name!(source_type, Option<String>),
            name!(source_id, String),
            name!(cell_id, i64),
            name!(status, &'static str),
            name!(lease_uuid, Option<PgUuid>),
            name!(created_at, TimestampWithTimeZone),
            name!(updated_at, TimestampWithTimeZone),
            name!(cell_name, Option<String>),
            name!(cell_address, Option<String>),
            name!(display_value, Option<String>),
        ),
    >,
    ErrorReport,
> {
    let found = find(bucket_type, bucket_value)?;
    Ok(TableIterator::new(found))
}

/// On the way of every request that a router passes on: no statement is executed.
fn find(bucket_type: Option<String>, bucket_value: Option<String>) -> Result<Option<Routed>, ClaimsError> {
    let catalog = catalog::current_without_spi();
    let bucket_type = access::given(bucket_type, "bucket_type")?;
    let bucket_value = access::given(bucket_value, "bucket_value")?;
    let type_id = id::type_from_text(&bucket_type, Kind::Bucket, &catalog.types)
        .map_err(|problem| BadInput::new("bucket_type", problem))?;
    let bucket_value = catalog.types.canonical_of_asked(type_id, &bucket_value);
    let bucket_value = bucket_value.map_err(|problem| BadInput::new("bucket_value", Problem::name(problem)))?;
    Ok(records::by_bucket(type_id, &bucket_value).map(|claim| route(claim, &catalog)))
}

#[pg_extern(name = "get_records", schema = "claims", security_definer, stable, parallel_safe)]
#[search_path(pg_catalog, pg_temp)]
#[allow(clippy::type_complexity)]
fn get_records_2(
    buckets: Option<Jsonb>,
) -> Result<
    TableIterator<
        'static,
        (
            name!(uuid, PgUuid),
            name!(bucket_type, Option<String>),
            name!(bucket_value, String),
            name!(subject_type, Option<String>),
            name!(subject_id, String),
            name!(source_type, Option<String>),
            name!(source_id, String),
            name!(cell_id, i64),
            name!(status, &'static str),
            name!(lease_uuid, Option<PgUuid>),
            name!(created_at, TimestampWithTimeZone),
            name!(updated_at, TimestampWithTimeZone),
            name!(cell_name, Option<String>),
            name!(cell_address, Option<String>),
            name!(display_value, Option<String>),
        ),
    >,
    ErrorReport,
> {
    let found = spi::connect(|connection| {
        let catalog = catalog::current(connection);
        let buckets = access::given(buckets, "buckets")?;
        let buckets = bucket_list(&mut buckets.tokens(), "buckets", &catalog.types, MAX_BUCKETS)?;
        routed(records::by_buckets(connection, &buckets), &catalog)
    })?;
    Ok(TableIterator::new(found))
}

/// Claims with names for their numbers, and their cells; as many as one answer may hold.
fn routed(claims: Vec<StoredClaim>, catalog: &Catalog) -> Result<Vec<Routed>, ClaimsError> {
    let mut bytes = 0;
    let route = |claim| {
        let routed = route(claim, catalog);
        bytes += size(&routed);
        if bytes > PAGE_BYTES { Err(BadInput::new("buckets", Problem::AnswerTooLarge).into()) } else { Ok(routed) }
    };
    claims.into_iter().map(route).collect()
}

/// About how many bytes a row of the answer has.
fn size(routed: &Routed) -> usize {
    const NUMBERS_AND_NAMES: usize = 200;
    let (_, _, bucket_value, _, subject_id, _, source_id, .., cell_name, cell_address, display_value) = routed;
    let texts = [
        Some(bucket_value),
        Some(subject_id),
        Some(source_id),
        cell_name.as_ref(),
        cell_address.as_ref(),
        display_value.as_ref(),
    ];
    texts.into_iter().flatten().map(String::len).sum::<usize>() + NUMBERS_AND_NAMES
}

fn route(claim: StoredClaim, catalog: &Catalog) -> Routed {
    let cell = catalog.cells.get(&claim.cell_id);
    let types = &catalog.types;
    (
        claim.uuid,
        types.bucket.name(claim.bucket_type).map(str::to_owned),
        claim.bucket_value,
        types.subject.name(claim.subject_type).map(str::to_owned),
        claim.subject_id,
        types.source.name(claim.source_type).map(str::to_owned),
        claim.source_id,
        claim.cell_id,
        status_name(claim.status),
        claim.lease_uuid,
        claim.created_at.into(),
        claim.updated_at.into(),
        cell.and_then(|cell| cell.name.clone()),
        cell.and_then(|cell| cell.address.clone()),
        claim.display_value,
    )
}

/// The name of a claim's status.
pub fn status_name(status: i16) -> &'static str {
    match status {
        1 => "ACTIVE",
        2 => "LEASE_CREATING",
        3 => "LEASE_DESTROYING",
        4 => "TRANSFERRING",
        _ => "UNSPECIFIED",
    }
}
