//! Looks into a shard's own index, for other nodes: who is at a row that no snapshot shows. Citus has them executed on the node of the
//! shard, in the connection and the transaction that the caller has there; so what the caller wrote is its own there, too.

use std::ffi::CString;

use claims_model::lookalike::Look;
use claims_model::{BadInput, Bucket, Problem};
use pgrx::Uuid as PgUuid;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::access::given;
use crate::error::ClaimsError;
use crate::pg::uuid::from_pg_uuid;
use crate::store::service::{claims, leases, looks};

/// The table that a shard is.
fn shard(name: Option<String>) -> Result<CString, ClaimsError> {
    let name = given(name, "shard")?;
    Ok(CString::new(name).map_err(|_| BadInput::new("shard", Problem::OutOfRange { allowed: "a table" }))?)
}

/// Which of many buckets another open transaction is at, by their places in the arrays, counted from 1.
#[pg_extern(schema = "claims")]
#[search_path(pg_catalog, pg_temp)]
fn buckets_in_flight(
    shard_name: Option<String>,
    bucket_values: Option<Vec<Option<String>>>,
    bucket_types: Option<Vec<Option<i32>>>,
) -> Result<Vec<i32>, ErrorReport> {
    let shard = shard(shard_name)?;
    let (values, types) = (given(bucket_values, "bucket_values")?, given(bucket_types, "bucket_types")?);
    let mut found = Vec::new();
    for (place, (value, bucket_type)) in (1..).zip(values.into_iter().zip(types)) {
        let value = given(value, "bucket_values")?.into();
        let bucket = Bucket { bucket_type: given(bucket_type, "bucket_types")?, value };
        if claims::is_in_flight_in(&shard, &bucket) {
            found.push(place);
        }
    }
    Ok(found)
}

#[pg_extern(schema = "claims")]
#[search_path(pg_catalog, pg_temp)]
fn is_lease_in_flight(shard_name: Option<String>, lease_uuid: Option<PgUuid>) -> Result<bool, ErrorReport> {
    Ok(leases::is_in_flight_in(&shard(shard_name)?, from_pg_uuid(given(lease_uuid, "lease_uuid")?)))
}

#[pg_extern(schema = "claims")]
#[search_path(pg_catalog, pg_temp)]
fn is_look_in_flight(
    shard_name: Option<String>,
    skeleton: Option<PgUuid>,
    bucket_type: Option<i32>,
) -> Result<bool, ErrorReport> {
    let look =
        Look { skeleton: from_pg_uuid(given(skeleton, "skeleton")?), bucket_type: given(bucket_type, "bucket_type")? };
    Ok(looks::is_in_flight_in(&shard(shard_name)?, look))
}
