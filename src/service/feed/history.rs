//! `bucket_history`: returns the owners of a name, as far back as the feed reaches.

use claims_model::types::Kind;
use claims_model::{BadInput, Problem, Types, id};

use super::tables::{BucketChange, FEED_TABLES};
use crate::kernel::call::Call;
use crate::kernel::error::ClaimsError;
use crate::kernel::{access, arguments};
use crate::service::naming;
use crate::service::read::RECORD_TABLES;
use pg::clock::Moment;
use pg::name::Name;
use pg::prelude::*;

/// The status of a claim that has no owner yet.
const LEASE_CREATING: i16 = 2;

/// A period of a name's history: the cell that owned it, or none.
struct Tenure {
    cell_id: Option<i64>,
    since: Option<Moment>,
    until: Option<Moment>,
    /// The change that began it; `None` if it began before the feed.
    change: Option<BucketChange>,
}

#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
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
    let (tenures, catalog) = Call::run(|call| {
        arguments::require!(bucket_type, bucket_value);
        access::read_as_administrator()?;
        let catalog = call.current_catalog();
        let number = id::type_from_text(&bucket_type, Kind::Bucket, &catalog.types)
            .map_err(|problem| BadInput::new("bucket_type", problem))?;
        let read = |types: &Types| {
            let value = types.canonical_for_lookup(number, &bucket_value);
            let value = value.map_err(|problem| BadInput::new("bucket_value", Problem::name(problem)))?;
            let changes = FEED_TABLES.of(call).changes_of(call.connection, number, &value);
            let standing = if changes.is_empty() { RECORD_TABLES.of(call).claim(number, &value) } else { None };
            Ok((changes, standing))
        };
        let has_any = |(changes, standing): &(Vec<_>, Option<_>)| !changes.is_empty() || standing.is_some();
        let (changes, standing) = naming::in_snapshot(call.tables, &catalog, Some(number), read, has_any)?;
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

/// Returns the periods that changes divide the history into. The first one began before the feed, at an unknown time.
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
