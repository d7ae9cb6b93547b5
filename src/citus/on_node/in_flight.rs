//! Index probes of a shard for other nodes, which find rows that no snapshot shows. Citus runs them on the node of the shard, in
//! the caller's connection and transaction there, so the caller's rows count as its own there, too.

use std::ffi::CString;

use claims_model::lookalike::Skeleton;
use claims_model::{BadInput, Bucket, Problem};

use crate::kernel::arguments::required;
use crate::kernel::error::ClaimsError;
use crate::service::claims::{leases, skeletons, statements};
use pg::prelude::*;
use pg::uuid::from_pg_uuid;

/// Returns the table of a shard.
fn shard(name: Option<String>) -> Result<CString, ClaimsError> {
    let name = required(name, "shard")?;
    Ok(CString::new(name).map_err(|_| BadInput::new("shard", Problem::OutOfRange { allowed: "a table" }))?)
}

/// Returns the positions, from 1, of those buckets that another open transaction has written or locked.
#[pg_extern(schema = "claims")]
#[search_path(pg_catalog, pg_temp)]
fn buckets_in_flight(
    shard_name: Option<String>,
    bucket_values: Option<Vec<Option<String>>>,
    bucket_types: Option<Vec<Option<i32>>>,
) -> Result<Vec<i32>, ErrorReport> {
    let shard = shard(shard_name)?;
    let (values, types) = (required(bucket_values, "bucket_values")?, required(bucket_types, "bucket_types")?);
    let mut found = Vec::new();
    for (position, (value, bucket_type)) in (1..).zip(values.into_iter().zip(types)) {
        let value = required(value, "bucket_values")?.into();
        let bucket = Bucket { bucket_type: required(bucket_type, "bucket_types")?, value };
        if statements::is_in_flight_in(&shard, &bucket) {
            found.push(position);
        }
    }
    Ok(found)
}

#[pg_extern(schema = "claims")]
#[search_path(pg_catalog, pg_temp)]
fn is_lease_in_flight(shard_name: Option<String>, lease_uuid: Option<PgUuid>) -> Result<bool, ErrorReport> {
    Ok(leases::is_in_flight_in(&shard(shard_name)?, from_pg_uuid(required(lease_uuid, "lease_uuid")?)))
}

#[pg_extern(schema = "claims")]
#[search_path(pg_catalog, pg_temp)]
fn is_look_in_flight(
    shard_name: Option<String>,
    skeleton: Option<PgUuid>,
    bucket_type: Option<i32>,
) -> Result<bool, ErrorReport> {
    Ok(skeletons::is_in_flight_in(&shard(shard_name)?, skeleton_of(skeleton, bucket_type)?))
}

/// Returns whether a name with a skeleton is reserved. With `waits`, waits for other transactions that reserve or unreserve one.
#[pg_extern(schema = "claims")]
#[search_path(pg_catalog, pg_temp)]
fn is_look_reserved(
    shard_name: Option<String>,
    skeleton: Option<PgUuid>,
    bucket_type: Option<i32>,
    waits: Option<bool>,
) -> Result<bool, ErrorReport> {
    Ok(skeletons::is_reserved_in(&shard(shard_name)?, skeleton_of(skeleton, bucket_type)?, required(waits, "waits")?))
}

fn skeleton_of(skeleton: Option<PgUuid>, bucket_type: Option<i32>) -> Result<Skeleton, ClaimsError> {
    Ok(Skeleton {
        hash: from_pg_uuid(required(skeleton, "skeleton")?),
        bucket_type: required(bucket_type, "bucket_type")?,
    })
}
