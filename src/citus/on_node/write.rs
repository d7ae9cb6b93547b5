//! Writes to further shards of a node, on behalf of a statement that Citus has sent to one of them. So a batch needs one message
//! for each node, not one for each shard. The statement calls these functions in RETURNING, for the rows that it has written.
//! Citus sends such a call to the node only if the function is declared IMMUTABLE. These functions are not immutable; but one
//! argument is a column of the row, so no planner evaluates them in advance.
//!
//! The caller has locked the shards against being moved ([`crate::citus`], `nodes`).

use std::collections::BTreeMap;

use claims_model::{BadInput, Problem};
use uuid::Uuid;

use super::membership::require_current;
use crate::citus::shards;
use crate::kernel::arguments::required;
use crate::kernel::error::ClaimsError;
use crate::service::claims::{ACTIVE, HeldFor, NewClaims};
use pg::clock::Moment;
use pg::compatibility;
use pg::prelude::*;
use pg::spi::{self, Connection};
use pg::uuid::from_pg_uuid;

/// Returns the elements of an array argument, which must not contain NULLs.
fn list<T>(argument: Option<Vec<Option<T>>>, name: &str) -> Result<Vec<T>, ClaimsError> {
    required(argument, name)?.into_iter().map(|element| required(element, name)).collect()
}

/// Returns the elements of an array argument, which must not contain NULLs, as uuids.
fn uuids(argument: Option<Vec<Option<PgUuid>>>, name: &str) -> Result<Vec<Uuid>, ClaimsError> {
    Ok(list(argument, name)?.into_iter().map(from_pg_uuid).collect())
}

/// Returns the elements of a column at the positions of rows.
fn at<T: Copy>(column: &[T], rows: &[usize]) -> Vec<T> {
    rows.iter().map(|row| column[*row]).collect()
}

/// Like [at], for texts.
fn texts<'c>(column: &'c [String], rows: &[usize]) -> Vec<&'c str> {
    rows.iter().map(|row| column[*row].as_str()).collect()
}

/// The further rows to write on a node.
struct ShardRows {
    /// The length of each of the arrays.
    length: usize,
    /// The positions of the rows of one part, by shard.
    by_shard: BTreeMap<i64, Vec<usize>>,
}

impl ShardRows {
    /// Selects the rows of the part whose anchor is at this position.
    fn of(
        position: usize,
        parts: Option<Vec<Option<i32>>>,
        shards: Option<Vec<Option<i64>>>,
    ) -> Result<Self, ClaimsError> {
        let (parts, shards) = (list(parts, "parts")?, list(shards, "shards")?);
        require_length(shards.len(), parts.len(), "shards")?;
        let mut by_shard: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
        for (row, (part, shard)) in parts.iter().zip(shards).enumerate() {
            require_shard(shard)?;
            // Parts are counted from 1.
            if usize::try_from(*part) == Ok(position + 1) {
                by_shard.entry(shard).or_default().push(row);
            }
        }
        Ok(ShardRows { length: parts.len(), by_shard })
    }

    fn column<T>(&self, argument: Option<Vec<Option<T>>>, name: &str) -> Result<Vec<T>, ClaimsError> {
        self.column_of(list(argument, name)?, name)
    }

    /// Returns a column of the rows, which must have an element for each row.
    fn column_of<T>(&self, list: Vec<T>, name: &str) -> Result<Vec<T>, ClaimsError> {
        require_length(list.len(), self.length, name)?;
        Ok(list)
    }

    /// Calls `write` for each shard, with the positions of its rows. Returns the number of rows written.
    fn write(self, write: impl Fn(&Connection, i64, &[usize]) -> usize) -> Result<i32, ClaimsError> {
        spi::connect(|connection| {
            let mut written = 0;
            for (shard, rows) in &self.by_shard {
                require_current(connection, *shard)?;
                written += write(connection, *shard, rows);
            }
            Ok(i32::try_from(written).unwrap_or(i32::MAX))
        })
    }
}

fn require_length(length: usize, expected: usize, name: &str) -> Result<(), ClaimsError> {
    if length == expected {
        return Ok(());
    }
    Err(BadInput::new(name, Problem::OutOfRange { allowed: "as many elements as parts has" }).into())
}

/// Raises an error unless a shard number is positive. The names of tables contain it.
fn require_shard(shard: i64) -> Result<(), ClaimsError> {
    if shard > 0 { Ok(()) } else { Err(BadInput::new("shards", Problem::OutOfRange { allowed: "1 and more" }).into()) }
}

/// Creates the claims of the part whose anchor is the returned row, in shards of this node. Without a lease they are ACTIVE. Returns
/// their number.
#[pg_extern(schema = "claims", immutable)]
#[search_path(pg_catalog, pg_temp)]
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
    compatibility::require();
    let (anchor, anchors) = (required(anchor, "anchor")?, list(anchors, "anchors")?);
    let Some(position) = anchors.iter().position(|other| *other == anchor) else { return Ok(0) };
    let status = if lease_uuid.is_some() { HeldFor::Creating as i16 } else { ACTIVE };
    let cell_id = required(cell_id, "cell_id")?;
    let made_at = Moment::from(required(made_at, "made_at")?);
    let rows = ShardRows::of(position, parts, shards)?;
    let lease = lease_uuid.map(from_pg_uuid);
    let uuids = rows.column_of(self::uuids(uuids, "uuids")?, "uuids")?;
    let bucket_types = rows.column(bucket_types, "bucket_types")?;
    let bucket_values = rows.column(bucket_values, "bucket_values")?;
    let subject_types = rows.column(subject_types, "subject_types")?;
    let subject_ids = rows.column(subject_ids, "subject_ids")?;
    let source_types = rows.column(source_types, "source_types")?;
    let source_ids = rows.column(source_ids, "source_ids")?;
    let display_values = rows.column_of(required(display_values, "display_values")?, "display_values")?;
    Ok(rows.write(|connection, shard, rows| {
        let new = NewClaims {
            uuid: at(&uuids, rows),
            bucket_type: at(&bucket_types, rows),
            bucket_value: texts(&bucket_values, rows),
            subject_type: at(&subject_types, rows),
            subject_id: texts(&subject_ids, rows),
            source_type: at(&source_types, rows),
            source_id: texts(&source_ids, rows),
            display_value: rows.iter().map(|row| display_values[*row].as_deref()).collect(),
        };
        shards::create(connection, shard, lease, cell_id, made_at, status, new)
    })?)
}

/// Settles the claims of the part whose anchor is the returned claim, in shards of this node. Without a time it deletes them.
/// Returns their number.
#[pg_extern(schema = "claims", immutable)]
#[search_path(pg_catalog, pg_temp)]
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
    compatibility::require();
    let anchor = (required(anchor_type, "anchor_type")?, required(anchor_value, "anchor_value")?);
    let anchors = list(anchor_types, "anchor_types")?.into_iter().zip(list(anchor_values, "anchor_values")?);
    let Some(position) = anchors.into_iter().position(|other| other == anchor) else { return Ok(0) };
    let (leases, status) = (uuids(leases, "leases")?, required(status, "status")?);
    let settled_at = settled_at.map(Moment::from);
    let rows = ShardRows::of(position, parts, shards)?;
    let (types, values) = (rows.column(bucket_types, "bucket_types")?, rows.column(bucket_values, "bucket_values")?);
    Ok(rows.write(|connection, shard, rows| {
        let (types, values) = (at(&types, rows), texts(&values, rows));
        match settled_at {
            Some(settled_at) => shards::activate(connection, shard, &leases, &types, &values, status, settled_at),
            None => shards::remove(connection, shard, &leases, &types, &values, status),
        }
    })?)
}

/// Inserts the outcome of a lease into the shard that is colocated with the lease's.
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
    compatibility::require();
    let (lease, cell_id) = (required(lease_uuid, "lease_uuid")?, required(cell_id, "cell_id")?);
    let (shard, outcome) = (required(shard, "shard")?, required(outcome, "outcome")?);
    require_shard(shard)?;
    let settled_at = Moment::from(required(settled_at, "settled_at")?);
    Ok(spi::connect(|connection| {
        require_current(connection, shard)?;
        let lease = from_pg_uuid(lease);
        let put = shards::put_outcome(connection, shard, lease, cell_id, request_digest, outcome, settled_at);
        Ok::<_, ClaimsError>(put == 1)
    })?)
}
