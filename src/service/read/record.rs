//! `get_record` and `get_records`: return the owner of a name, and the address of its cell.

use claims_model::batch::bucket_list;
use claims_model::limits::PAGE_BYTES;
use claims_model::types::Kind;
use claims_model::{BadInput, Bucket, Problem, Types, id};

use super::tables::RECORD_TABLES;
use crate::kernel::call::Call;
use crate::kernel::catalog::{self, Catalog};
use crate::kernel::error::ClaimsError;
use crate::kernel::{arguments, tables};
use crate::service::claims::StoredClaim;
use crate::service::naming;
use pg::jsonb::Jsonb;
use pg::prelude::*;
use pg::row_set::{Joined, RowSet};

/// Maximum number of buckets in one call.
const MAX_BUCKETS: usize = 10_000;

/// The columns of a claim with which every row of an answer begins, in their order.
pub type ClaimColumns = (
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
);

/// A row of `get_record`: a claim, the name and the address of its cell, and how the name was written.
type Routed = Joined<ClaimColumns, (Option<String>, Option<String>, Option<String>)>;

/// A row of `get_records`: that of `get_record`, and which of the buckets it answers, from 1.
type Numbered = Joined<Routed, (i32,)>;

#[pg_extern(
    name = "get_record",
    schema = "claims",
    stable,
    parallel_safe,
    sql = r#"CREATE FUNCTION claims."get_record"("bucket_type" text, "bucket_value" text) RETURNS TABLE (
    "uuid" uuid, "bucket_type" text, "bucket_value" text, "subject_type" text, "subject_id" text, "source_type" text, "source_id" text,
    "cell_id" bigint, "status" text, "lease_uuid" uuid, "created_at" timestamp with time zone, "updated_at" timestamp with time zone,
    "cell_name" text, "cell_address" text, "display_value" text
)
STABLE PARALLEL SAFE
LANGUAGE c AS 'MODULE_PATHNAME', '@FUNCTION_NAME@';"#
)]
fn get_record_2(bucket_type: Option<String>, bucket_value: Option<String>) -> Result<RowSet<Routed>, ErrorReport> {
    Ok(RowSet::new(find(bucket_type, bucket_value)?))
}

/// Looks a claim up without running a statement: routers call it for every request.
fn find(bucket_type: Option<String>, bucket_value: Option<String>) -> Result<Option<Routed>, ClaimsError> {
    arguments::require!(bucket_type, bucket_value);
    loop {
        let tables = tables::at_entry();
        let catalog = catalog::current_without_spi();
        let type_id = id::type_from_text(&bucket_type, Kind::Bucket, &catalog.types)
            .map_err(|problem| BadInput::new("bucket_type", problem))?;
        let read = |types: &Types| {
            let value = types.canonical_for_lookup(type_id, &bucket_value);
            let value = value.map_err(|problem| BadInput::new("bucket_value", Problem::name(problem)))?;
            Ok(RECORD_TABLES.at(tables).claim(type_id, &value))
        };
        let is_there = |found: &Result<Option<StoredClaim>, _>| !matches!(found, Ok(None));
        // It looks again if the tables were distributed meanwhile.
        if let Ok(claim) = naming::in_snapshot(tables, &catalog, Some(type_id), read, is_there)? {
            return Ok(claim.map(|claim| route(claim, &catalog)));
        }
    }
}

#[pg_extern(
    name = "get_records",
    schema = "claims",
    security_definer,
    stable,
    parallel_safe,
    sql = r#"CREATE FUNCTION claims."get_records"("buckets" jsonb) RETURNS TABLE (
    "uuid" uuid, "bucket_type" text, "bucket_value" text, "subject_type" text, "subject_id" text, "source_type" text, "source_id" text,
    "cell_id" bigint, "status" text, "lease_uuid" uuid, "created_at" timestamp with time zone, "updated_at" timestamp with time zone,
    "cell_name" text, "cell_address" text, "display_value" text, "ordinal" integer
)
STABLE SECURITY DEFINER PARALLEL SAFE SET search_path TO pg_catalog, pg_temp
LANGUAGE c AS 'MODULE_PATHNAME', '@FUNCTION_NAME@';"#
)]
#[search_path(pg_catalog, pg_temp)]
fn get_records_3(buckets: Option<Jsonb>) -> Result<RowSet<Numbered>, ErrorReport> {
    let found = Call::run(|call| {
        let catalog = call.current_catalog();
        let buckets = arguments::required(buckets, "buckets")?;
        let read = |types: &Types| {
            let buckets = bucket_list(&mut buckets.tokens(), "buckets", types, MAX_BUCKETS)?;
            let claims = RECORD_TABLES.of(call).claims(call.connection, &buckets);
            let asked = buckets.len();
            Ok((numbered(claims, &buckets), asked))
        };
        let has_all = |(claims, asked): &(Vec<_>, usize)| claims.len() == *asked;
        let (claims, _) = naming::in_snapshot(call.tables, &catalog, None, read, has_all)?;
        routed(claims, &catalog)
    })?;
    Ok(RowSet::new(found))
}

/// Returns each of the claims on some of the buckets with the position of its bucket, from 1. The claims are in the order of the buckets.
fn numbered(claims: Vec<StoredClaim>, buckets: &[Bucket]) -> Vec<(i32, StoredClaim)> {
    let mut asked = (1..).zip(buckets);
    let is_on = |claim: &StoredClaim, bucket: &Bucket| {
        (claim.bucket_type, claim.bucket_value.as_str()) == (bucket.bucket_type, &*bucket.value)
    };
    let numbered = claims.into_iter().map(|claim| {
        let ordinal = asked.find(|(_, bucket)| is_on(&claim, bucket)).map_or(0, |(ordinal, _)| ordinal);
        (ordinal, claim)
    });
    numbered.collect()
}

/// Converts claims to rows, or raises an error if they are too large for one answer.
fn routed(claims: Vec<(i32, StoredClaim)>, catalog: &Catalog) -> Result<Vec<Numbered>, ClaimsError> {
    let mut bytes = 0;
    let route = |(ordinal, claim)| {
        let routed = route(claim, catalog);
        bytes += size(&routed);
        if bytes > PAGE_BYTES {
            return Err(BadInput::new("buckets", Problem::AnswerTooLarge).into());
        }
        Ok(Joined(routed, (ordinal,)))
    };
    claims.into_iter().map(route).collect()
}

/// Returns the approximate size of a row in bytes.
fn size(routed: &Routed) -> usize {
    const NUMBERS_AND_NAMES: usize = 200;
    let Joined((_, _, bucket_value, _, subject_id, _, source_id, ..), (cell_name, cell_address, display_value)) =
        routed;
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

fn route(mut claim: StoredClaim, catalog: &Catalog) -> Routed {
    let cell = catalog.cells.get(&claim.cell_id);
    let name = cell.and_then(|cell| cell.name.clone());
    let address = cell.and_then(|cell| cell.address.clone());
    let display_value = claim.display_value.take();
    Joined(claim_columns(claim, &catalog.types), (name, address, display_value))
}

/// Returns a claim's own columns.
pub fn claim_columns(claim: StoredClaim, types: &Types) -> ClaimColumns {
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
    )
}

/// Returns the name of a claim's status.
pub fn status_name(status: i16) -> &'static str {
    match status {
        1 => "ACTIVE",
        2 => "LEASE_CREATING",
        3 => "LEASE_DESTROYING",
        4 => "TRANSFERRING",
        _ => "UNSPECIFIED",
    }
}
