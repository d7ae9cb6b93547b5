//! `bucket_history`: who had a name when, as far as the feed reaches.

use claims_model::types::Kind;
use claims_model::{BadInput, Problem, id};
use pgrx::Uuid as PgUuid;
use pgrx::datum::TimestampWithTimeZone;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::access;
use crate::distribution;
use crate::error::ClaimsError;
use crate::pg::clock::Moment;
use crate::pg::name::Name;
use crate::pg::spi;
use crate::store::catalog;
use crate::store::service::changes::{self, BucketChange};
use crate::store::service::distributed::changes as distributed_changes;
use crate::store::service::records;

/// The status of a claim that nobody has yet.
const LEASE_CREATING: i16 = 2;

/// A name in the hands of one cell, or of nobody.
struct Tenure {
    cell_id: Option<i64>,
    since: Option<Moment>,
    until: Option<Moment>,
    /// What began it; `None`: it began before the feed.
    change: Option<BucketChange>,
}

#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
#[allow(clippy::type_complexity)]
fn bucket_history(
    bucket_type: Option<String>,
    bucket_value: Option<String>,
) -> Result<
    TableIterator<
        'static,
        (
            name!(cell_id, Option<i64>),
            name!(cell_name, Option<String>),
            name!(since, Option<TimestampWithTimeZone>),
            name!(until, Option<TimestampWithTimeZone>),
            name!(op, Option<String>),
            name!(lease_uuid, Option<PgUuid>),
            name!(actor, Option<Name>),
        ),
    >,
    ErrorReport,
> {
    let (tenures, catalog) = spi::connect(|connection| {
        let bucket_type = access::given(bucket_type, "bucket_type")?;
        let bucket_value = access::given(bucket_value, "bucket_value")?;
        access::read_as_administrator()?;
        let catalog = catalog::current(connection);
        let number = id::type_from_text(&bucket_type, Kind::Bucket, &catalog.types)
            .map_err(|problem| BadInput::new("bucket_type", problem))?;
        let value = catalog.types.canonical_of_asked(number, &bucket_value);
        let value = value.map_err(|problem| BadInput::new("bucket_value", Problem::name(problem)))?;
        let of_bucket = if distribution::is_spread() { distributed_changes::of_bucket } else { changes::of_bucket };
        let changes = of_bucket(connection, number, &value);
        let standing = if changes.is_empty() { records::by_bucket(number, &value) } else { None };
        let holder = standing.filter(|claim| claim.status != LEASE_CREATING).map(|claim| claim.cell_id);
        Ok::<_, ClaimsError>((tenures(changes, holder), catalog))
    })?;
    let row = move |tenure: Tenure| {
        let cell = tenure.cell_id.and_then(|cell| catalog.cells.get(&cell));
        let (op, lease_uuid, actor) = match tenure.change {
            Some(change) => (Some(change.op), change.lease_uuid, Some(Name(change.actor))),
            None => (None, None, None),
        };
        (
            tenure.cell_id,
            cell.and_then(|cell| cell.name.clone()),
            tenure.since.map(TimestampWithTimeZone::from),
            tenure.until.map(TimestampWithTimeZone::from),
            op,
            lease_uuid,
            actor,
        )
    };
    Ok(TableIterator::new(tenures.into_iter().map(row).collect::<Vec<_>>()))
}

/// Each change ends a tenure and begins one. Of whoever had the name before the feed only that is known.
fn tenures(changes: Vec<BucketChange>, holder: Option<i64>) -> Vec<Tenure> {
    let first = changes.first().map(|change| (change.old_cell_id, Some(change.at)));
    let (before, until) = first.unwrap_or((holder, None));
    let mut tenures: Vec<Tenure> = Vec::with_capacity(changes.len() + 1);
    tenures.extend(before.map(|cell_id| Tenure { cell_id: Some(cell_id), since: None, until, change: None }));
    let ends: Vec<_> = changes.iter().skip(1).map(|change| Some(change.at)).chain([None]).collect();
    let tenure = |(change, until): (BucketChange, _)| Tenure {
        cell_id: change.new_cell_id,
        since: Some(change.at),
        until,
        change: Some(change),
    };
    tenures.extend(changes.into_iter().zip(ends).map(tenure));
    tenures
}
