//! `subject_history`: returns the names that a subject has and has had, newest first.
//!
//! The audit log has the changes, found by its index on search keys: only a call that is audited pays for it. The claims that exist are read from
//! their table, which has no index on subjects: every begin would pay for one.

use claims_model::cursor::{Cursor, HistoryCursor, HistoryEvent};
use claims_model::history::subject_key;
use claims_model::limits::ID_CHARS;
use claims_model::types::Kind;
use claims_model::{BadInput, NOBODY, Reference, TypeTable, id};

use crate::kernel::access;
use crate::kernel::arguments;
use crate::kernel::call::Call;
use crate::kernel::catalog::Catalog;
use crate::kernel::error::ClaimsError;
use crate::service::audit::audit_log::{self, AuditedEvent, EventPlace};
use crate::service::audit::described;
use crate::service::claims::{StoredClaim, SubjectPlace};
use crate::service::read::{RECORD_TABLES, page_size};
use pg::clock::Moment;
use pg::prelude::*;

/// An event of a subject's history, in the order of the columns.
type HistoryRow = (
    TimestampWithTimeZone,
    String,
    Option<i64>,
    String,
    String,
    Option<PgUuid>,
    Option<String>,
    Option<String>,
    String,
);

#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn subject_history(
    subject_type: Option<String>,
    subject_id: Option<String>,
    after: default!(Option<String>, "NULL"),
    max_results: default!(Option<i32>, 1000),
) -> Result<
    TableIterator<
        'static,
        (
            name!(at, TimestampWithTimeZone),
            name!(what, String),
            name!(cell_id, Option<i64>),
            name!(bucket_type, String),
            name!(bucket_value, String),
            name!(lease_uuid, Option<PgUuid>),
            name!(cell_role, Option<String>),
            name!(context, Option<String>),
            name!(cursor, String),
        ),
    >,
    ErrorReport,
> {
    let rows = Call::run(|call| {
        arguments::require!(subject_type, max_results);
        access::read_as_administrator()?;
        let catalog = call.current_catalog();
        let type_id = id::type_from_text(&subject_type, Kind::Subject, &catalog.types)
            .map_err(|problem| BadInput::new("subject_type", problem))?;
        let id = arguments::text(subject_id, "subject_id", ID_CHARS)?;
        let after = after.map(|text| HistoryCursor::decode(&text)).transpose();
        let after = after.map_err(|problem| BadInput::new("after", problem))?;
        let most = page_size(max_results)?;
        Ok::<_, ClaimsError>(page(call, &catalog, &Reference { type_id, id: id.into() }, after, most))
    })?;
    Ok(TableIterator::new(rows))
}

/// Returns a page of a subject's history: its claims and the changes, merged.
fn page(
    call: &Call,
    catalog: &Catalog,
    subject: &Reference,
    after: Option<HistoryCursor>,
    most: i64,
) -> Vec<HistoryRow> {
    let (claim, change) = places(after);
    let name = described(&catalog.types.subject, subject);
    let key = subject_key(subject.type_id, &subject.id);
    let claims = RECORD_TABLES.of(call).claims_of_subject(call.connection, subject, &claim, most);
    let changes = audit_log::of_subject(call.connection, key, &name, change, most);
    let (mut claims, mut changes) = (claims.into_iter().peekable(), changes.into_iter().peekable());
    let mut rows = Vec::new();
    while rows.len() < usize::try_from(most).unwrap_or(0) {
        let is_claim = match (claims.peek(), changes.peek()) {
            (Some(claim), Some(change)) => began_at(claim).0 >= change.at.0,
            (claim, _) => claim.is_some(),
        };
        let row = match is_claim {
            true => claims.next().map(|claim| row_of_claim(&catalog.types.bucket, claim)),
            false => changes.next().map(|change| row_of_change(&catalog.types.bucket, &name, change)),
        };
        let Some(row) = row else { break };
        rows.push(row);
    }
    rows
}

/// Returns the positions before which claims and changes follow a cursor.
fn places(after: Option<HistoryCursor>) -> (SubjectPlace, EventPlace) {
    let end = Moment(i64::MAX);
    let (at, event) = after.map_or((end, None), |cursor| (Moment(cursor.at), Some(cursor.event)));
    let (bucket_type, bucket_value, id, nth) = match event {
        None => (i32::MAX, String::new(), i64::MAX, i64::MAX),
        // All changes of that moment follow.
        Some(HistoryEvent::Claim { bucket_type, bucket_value }) => (bucket_type, bucket_value, i64::MAX, i64::MAX),
        // All claims of that moment came before.
        Some(HistoryEvent::Change { id, nth }) => (i32::MIN, String::new(), id, nth),
    };
    (SubjectPlace { created_at: at, bucket_type, bucket_value }, EventPlace { at, id, nth })
}

/// Returns since when a subject has a claim, or when it gave up a name that is kept back.
fn began_at(claim: &StoredClaim) -> Moment {
    if claim.is_kept_back() { claim.updated_at } else { claim.created_at }
}

fn row_of_claim(types: &TypeTable, claim: StoredClaim) -> HistoryRow {
    let (at, what) = (began_at(&claim), if claim.is_kept_back() { "kept_back" } else { "holds" });
    let StoredClaim { bucket_type, bucket_value, cell_id, lease_uuid, .. } = claim;
    let event = HistoryEvent::Claim { bucket_type, bucket_value: bucket_value.clone() };
    let cursor = HistoryCursor { at: at.0, event }.encode();
    let type_name = types.name(bucket_type).map_or_else(|| bucket_type.to_string(), str::to_owned);
    (
        at.into(),
        what.into(),
        Some(cell_id).filter(|cell| *cell != NOBODY),
        type_name,
        bucket_value,
        lease_uuid,
        None,
        None,
        cursor,
    )
}

/// Returns the row of a change, as the subject sees it: a replaced claim may have been given up, or got, by it.
fn row_of_change(types: &TypeTable, subject: &str, change: AuditedEvent) -> HistoryRow {
    let AuditedEvent { at, id, nth, op, bucket_type, bucket_value, lease_uuid, context, cell_role, .. } = change;
    let is_it = |other: Option<String>| other.is_some_and(|other| other == subject);
    let (what, cell_id) = match (is_it(change.old_subject), is_it(change.subject)) {
        // The owner of a name that was kept back had given it up before.
        _ if op == "release" => (op, change.cell_id),
        // A name that was handed over was in another cell before.
        (true, false) => ("destroy".to_owned(), change.old_cell_id.or(change.cell_id)),
        (false, true) => ("create".to_owned(), change.cell_id),
        _ => (op, change.cell_id),
    };
    let cursor = HistoryCursor { at: at.0, event: HistoryEvent::Change { id, nth } }.encode();
    let shown = types.id(&bucket_type).and_then(|id| types.name(id)).map(str::to_owned);
    (at.into(), what, cell_id, shown.unwrap_or(bucket_type), bucket_value, lease_uuid, cell_role, context, cursor)
}
