//! `bucket_history`: returns the owners of a name, as far back as the feed reaches.

use claims_model::history::name_key;
use claims_model::types::Kind;
use claims_model::{BadInput, Problem, Types, id};

use super::tables::{BucketChange, FEED_TABLES};
use crate::kernel::call::Call;
use crate::kernel::error::{ClaimsError, known_or_raised};
use crate::kernel::{access, arguments};
use crate::service::audit::audit_log;
use crate::service::audit::audit_log::AuditedEvent;
use crate::service::claims::BUCKET_INDEX;
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

#[pg_extern(name = "bucket_history", schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn bucket_history_2(
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
            name!(context, Option<String>),
            name!(cell_role, Option<String>),
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
            let changes = changes_of(call, types, number, &value);
            let claim = || known_or_raised(RECORD_TABLES.of(call).claim(number, &value), BUCKET_INDEX);
            let standing = if changes.is_empty() { claim() } else { None };
            Ok((changes, standing))
        };
        let has_any = |(changes, standing): &(Vec<_>, Option<_>)| !changes.is_empty() || standing.is_some();
        let (changes, standing) = naming::in_snapshot(call.tables, &catalog, Some(number), read, has_any)?;
        let holder = standing.filter(|claim| claim.status != LEASE_CREATING).map(|claim| claim.cell_id);
        Ok::<_, ClaimsError>((tenures(changes, holder), catalog))
    })?;
    let row = move |tenure: Tenure| {
        let cell = tenure.cell_id.and_then(|cell| catalog.cells.get(&cell));
        let (op, lease_uuid, actor, context, cell_role) = match tenure.change {
            Some(change) => {
                (Some(change.op), change.lease_uuid, Some(Name(change.actor)), change.context, change.cell_role)
            }
            None => Default::default(),
        };
        (
            tenure.cell_id,
            cell.and_then(|cell| cell.name.clone()),
            tenure.since.map(TimestampWithTimeZone::from),
            tenure.until.map(TimestampWithTimeZone::from),
            op,
            lease_uuid,
            actor,
            context,
            cell_role,
        )
    };
    Ok(TableIterator::new(tenures.into_iter().map(row).collect::<Vec<_>>()))
}

/// Returns the changes of a name, oldest first: those of the feed, and before the first of these those of the audit log.
fn changes_of(call: &Call, types: &Types, bucket_type: i32, value: &str) -> Vec<BucketChange> {
    let told = FEED_TABLES.of(call).changes_of(call.connection, bucket_type, value);
    let type_name = types.bucket.first_name(bucket_type).unwrap_or_default();
    let mut audited = audit_log::of_name(call.connection, name_key(bucket_type, value), type_name, value);
    if let Some(first) = told.first() {
        audited.retain(|event| event.at.0 < first.at.0);
    }
    let change = |event: AuditedEvent| {
        let AuditedEvent { at, op, lease_uuid, context, cell_role, cell_id, old_cell_id, session_role, .. } = event;
        let (old_cell_id, new_cell_id) = match op.as_str() {
            "create" => (None, cell_id),
            "destroy" => (cell_id, None),
            "transfer" => (old_cell_id, cell_id),
            _ => (cell_id, cell_id),
        };
        BucketChange { at, op, old_cell_id, new_cell_id, lease_uuid, actor: session_role, context, cell_role }
    };
    let mut changes: Vec<BucketChange> = audited.into_iter().map(change).collect();
    changes.extend(told);
    changes
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
