//! Writes into further shards of a node, by a statement that Citus has sent to one of them: so a batch needs a message for each node, and not
//! for each shard. A statement calls them for the rows that it returns. Citus sends a function along there only if it is declared IMMUTABLE,
//! which these are not: an argument is a column of the row, so no planner computes them beforehand.
//!
//! Whoever has them called has locked the shards against being moved (`distributed_nodes`).

use std::collections::BTreeMap;

use claims_model::{BadInput, Problem};
use pgrx::Uuid as PgUuid;
use pgrx::datum::TimestampWithTimeZone;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::access::given;
use crate::error::ClaimsError;
use crate::pg::clock::Moment;
use crate::pg::{gate, spi};
use crate::store::service::shards::{self, Held};

/// A list without NULLs.
fn list<T>(argument: Option<Vec<Option<T>>>, name: &str) -> Result<Vec<T>, ClaimsError> {
    given(argument, name)?.into_iter().map(|element| given(element, name)).collect()
}

/// The rows of one of several parts, by their shards. Rows are named by their places in the lists.
fn rows_of(
    part: usize,
    parts: &[i32],
    shards: &[i64],
    columns: &[usize],
) -> Result<BTreeMap<i64, Vec<usize>>, ClaimsError> {
    if columns.iter().chain([&shards.len()]).any(|length| *length != parts.len()) {
        return Err(BadInput::new("parts", Problem::OutOfRange { allowed: "lists of one length" }).into());
    }
    let mut rows: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for (row, shard) in shards.iter().enumerate().filter(|(row, _)| usize::try_from(parts[*row]) == Ok(part)) {
        rows.entry(*shard).or_default().push(row);
    }
    Ok(rows)
}

fn at<T: Clone>(list: &[T], rows: &[usize]) -> Vec<T> {
    rows.iter().map(|row| list[*row].clone()).collect()
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Creates claims in shards of this node: those of the part whose anchor the returned row is; how many.
#[pg_extern(schema = "claims", immutable)]
#[search_path(pg_catalog, pg_temp)]
#[allow(clippy::too_many_arguments)]
fn create_on_node(
    anchor: Option<String>,
    anchors: Option<Vec<Option<String>>>,
    parts: Option<Vec<Option<i32>>>,
    shards: Option<Vec<Option<i64>>>,
    lease_uuid: Option<PgUuid>,
    cell_id: Option<i64>,
    made_at: Option<TimestampWithTimeZone>,
    uuids: Option<Vec<Option<PgUuid>>>,
    bucket_types: Option<Vec<Option<i32>>>,
    bucket_values: Option<Vec<Option<String>>>,
    subject_types: Option<Vec<Option<i32>>>,
    subject_ids: Option<Vec<Option<String>>>,
    source_types: Option<Vec<Option<i32>>>,
    source_ids: Option<Vec<Option<String>>>,
    display_values: Option<Vec<Option<String>>>,
) -> Result<i32, ErrorReport> {
    gate::pass();
    let (anchor, anchors) = (given(anchor, "anchor")?, list(anchors, "anchors")?);
    let Some(place) = anchors.iter().position(|other| *other == anchor) else { return Ok(0) };
    let (lease, cell_id) = (given(lease_uuid, "lease_uuid")?, given(cell_id, "cell_id")?);
    let made_at = Moment::from(given(made_at, "made_at")?);
    let uuids = list(uuids, "uuids")?;
    let (bucket_types, bucket_values) = (list(bucket_types, "bucket_types")?, list(bucket_values, "bucket_values")?);
    let (subject_types, subject_ids) = (list(subject_types, "subject_types")?, list(subject_ids, "subject_ids")?);
    let (source_types, source_ids) = (list(source_types, "source_types")?, list(source_ids, "source_ids")?);
    let display_values = given(display_values, "display_values")?;
    let columns = [
        uuids.len(),
        bucket_types.len(),
        bucket_values.len(),
        subject_types.len(),
        subject_ids.len(),
        source_types.len(),
        source_ids.len(),
        display_values.len(),
    ];
    let rows = rows_of(place + 1, &list(parts, "parts")?, &list(shards, "shards")?, &columns)?;
    let created = spi::connect(|connection| {
        let create = |(shard, rows): (i64, Vec<usize>)| {
            let columns = [
                at(&uuids, &rows).into(),
                at(&bucket_types, &rows).into(),
                at(&bucket_values, &rows).into(),
                at(&subject_types, &rows).into(),
                at(&subject_ids, &rows).into(),
                at(&source_types, &rows).into(),
                at(&source_ids, &rows).into(),
                at(&display_values, &rows).into(),
            ];
            shards::create(connection, shard, [lease.into(), cell_id.into(), made_at.into()], columns)
        };
        rows.into_iter().map(create).sum()
    });
    Ok(number(created))
}

/// Settles claims in shards of this node: those of the part whose anchor the returned claim is. Without a time they are deleted. How many.
#[pg_extern(schema = "claims", immutable)]
#[search_path(pg_catalog, pg_temp)]
#[allow(clippy::too_many_arguments)]
fn settle_on_node(
    anchor_type: Option<i32>,
    anchor_value: Option<String>,
    anchor_types: Option<Vec<Option<i32>>>,
    anchor_values: Option<Vec<Option<String>>>,
    parts: Option<Vec<Option<i32>>>,
    shards: Option<Vec<Option<i64>>>,
    leases: Option<Vec<Option<PgUuid>>>,
    bucket_types: Option<Vec<Option<i32>>>,
    bucket_values: Option<Vec<Option<String>>>,
    status: Option<i16>,
    settled_at: Option<TimestampWithTimeZone>,
) -> Result<i32, ErrorReport> {
    gate::pass();
    let anchor = (given(anchor_type, "anchor_type")?, given(anchor_value, "anchor_value")?);
    let anchors = list(anchor_types, "anchor_types")?.into_iter().zip(list(anchor_values, "anchor_values")?);
    let Some(place) = anchors.into_iter().position(|other| other == anchor) else { return Ok(0) };
    let (leases, status) = (list(leases, "leases")?, given(status, "status")?);
    let (types, values) = (list(bucket_types, "bucket_types")?, list(bucket_values, "bucket_values")?);
    let columns = [types.len(), values.len()];
    let rows = rows_of(place + 1, &list(parts, "parts")?, &list(shards, "shards")?, &columns)?;
    let settled_at = settled_at.map(Moment::from);
    let settled = spi::connect(|connection| {
        let settle = |(shard, rows): (i64, Vec<usize>)| {
            let held = Held { leases: leases.clone(), types: at(&types, &rows), values: at(&values, &rows), status };
            shards::settle(connection, shard, held, settled_at)
        };
        rows.into_iter().map(settle).sum()
    });
    Ok(number(settled))
}

/// Puts the outcome of a lease into the shard that is beside the lease's.
#[pg_extern(schema = "claims", immutable)]
#[search_path(pg_catalog, pg_temp)]
fn put_outcome_on_node(
    lease_uuid: Option<PgUuid>,
    cell_id: Option<i64>,
    request_digest: Option<&[u8]>,
    shard: Option<i64>,
    outcome: Option<&str>,
    settled_at: Option<TimestampWithTimeZone>,
) -> Result<bool, ErrorReport> {
    gate::pass();
    let (lease, cell_id) = (given(lease_uuid, "lease_uuid")?, given(cell_id, "cell_id")?);
    let (shard, outcome) = (given(shard, "shard")?, given(outcome, "outcome")?);
    let settled_at = Moment::from(given(settled_at, "settled_at")?);
    let values = [lease.into(), cell_id.into(), request_digest.into(), outcome.into(), settled_at.into()];
    Ok(spi::connect(|connection| shards::put_outcome(connection, shard, values)) == 1)
}
