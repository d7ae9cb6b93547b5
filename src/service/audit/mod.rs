//! The audit log: who has changed which names, from where, and who was refused.
//!
//! Settled leases and fences are recorded in the transaction that settles or fences them, so the log has exactly those that
//! happened; so are names that change hands without a lease. Of fences it has as many a second as the cell's rate allows. Begins that were refused and denied calls go through shared memory ([`refusals`]).

pub mod audit_log;
mod tables;

pub use self::tables::*;

use claims_model::{Bucket, Conflict, Types, conflict};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::claims::{EndedLease, Ending};
use super::feed::ChangeSet;
use crate::kernel::audit_id::next_id;
use crate::kernel::call::CellCall;
use crate::kernel::catalog::Catalog;
use crate::kernel::pace;
use crate::kernel::refusals::{self, Fetched};
use crate::kernel::settings::{self, Audit};
use pg::clock::Moment;
use pg::spi::Connection;
use pg::{roles, session};

::pgrx::extension_sql_file!(
    "../../../sql/install/service/audit.sql",
    name = "audit",
    requires = ["tables", service::retention::purge_audit]
);

/// The most names in one row about names that change hands without a lease.
const NAMES_PER_ROW: usize = 10_000;
/// The most conflicts, with their names, in one row.
const MAX_CONFLICTS: usize = 20;
/// The most bytes of these names together. Values have at most 2,600 bytes.
const MAX_NAME_BYTES: usize = 3000;

/// Records leases that this transaction has settled.
pub fn settled(call: &CellCall, leases: &[EndedLease], ending: Ending, at: Moment) {
    if settings::audit() == Audit::Off || leases.is_empty() {
        return;
    }
    let actor = actor();
    let row = |lease| of_lease(&call.catalog.types, lease, nameless(at, call.cell_id, ending.outcome(), &actor));
    let rows: Vec<_> = leases.iter().map(row).collect();
    AUDIT_TABLES.of(call).record_audit(call.connection, &rows);
}

/// Adds a lease and its names to a row.
fn of_lease<'r>(types: &'r Types, lease: &'r EndedLease, row: AuditRow<'r>) -> AuditRow<'r> {
    let count = lease.held.claims();
    let mut row = AuditRow {
        lease: Some(lease.uuid),
        ops: Vec::with_capacity(count),
        bucket_types: Vec::with_capacity(count),
        bucket_values: Vec::with_capacity(count),
        ..row
    };
    let mut add = |op, bucket: &'r Bucket| {
        row.ops.push(op);
        row.bucket_types.push(types.bucket.first_name(bucket.bucket_type).unwrap_or_default());
        row.bucket_values.push(&*bucket.value);
    };
    lease.held.creates.iter().for_each(|bucket| add("create", bucket));
    lease.held.replaces.iter().for_each(|claim| add("replace", &claim.bucket));
    lease.held.destroys.iter().for_each(|bucket| add("destroy", bucket));
    row
}

/// Records unknown leases that this transaction has fenced. Beyond the cell's rate they are counted: by the worker, or where there is
/// none, by a row of this transaction.
pub fn fenced(call: &CellCall, leases: &[Uuid]) {
    if settings::audit() != Audit::All || leases.is_empty() {
        return;
    }
    let (actor, at, cell_id) = (actor(), Moment::now(), call.cell_id);
    let per_second = call.catalog.refusals_per_second(cell_id);
    let written = pace::pass_refusals(cell_id, per_second, leases.len());
    let written = written.unwrap_or_else(|| usize::try_from(per_second).unwrap_or(0)).min(leases.len());
    let lost = leases.len() - written;
    let row = |lease: &Uuid| AuditRow { lease: Some(*lease), ..nameless(at, cell_id, "fenced", &actor) };
    let mut rows: Vec<_> = leases[..written].iter().map(row).collect();
    if lost > 0 && !refusals::count_lost(cell_id, lost) {
        rows.push(AuditRow { lost: Some(lost), ..nameless(at, cell_id, "lost", &actor) });
    }
    if !rows.is_empty() {
        AUDIT_TABLES.of(call).record_audit(call.connection, &rows);
    }
}

/// Returns a row without a lease and without names.
pub fn nameless<'a>(at: Moment, cell_id: i64, what: &'static str, actor: &'a Actor) -> AuditRow<'a> {
    let (ops, bucket_types, bucket_values) = Default::default();
    AuditRow { at, cell_id, what, lease: None, actor, lost: None, ops, bucket_types, bucket_values }
}

/// Records names that a call has claimed or freed without a lease.
pub fn changed(call: &CellCall, what: &'static str, sets: &[ChangeSet]) {
    if settings::audit() == Audit::Off {
        return;
    }
    let (actor, at) = (actor(), Moment::now());
    let all: Vec<(&'static str, &Bucket)> =
        sets.iter().flat_map(|set| set.buckets.iter().map(|bucket| (set.change.op(), *bucket))).collect();
    let row = |portion: &[(&'static str, &Bucket)]| {
        let mut row = nameless(at, call.cell_id, what, &actor);
        row.lease = sets.first().and_then(|set| set.cause);
        let type_name = |bucket: &Bucket| call.catalog.types.bucket.first_name(bucket.bucket_type).unwrap_or_default();
        row.ops = portion.iter().map(|(op, _)| *op).collect();
        row.bucket_types = portion.iter().map(|(_, bucket)| type_name(bucket)).collect();
        AUDIT_TABLES.of(call).record_audit(
            call.connection,
            &[AuditRow { bucket_values: portion.iter().map(|(_, bucket)| &*bucket.value).collect(), ..row }],
        );
    };
    all.chunks(NAMES_PER_ROW).for_each(row);
}

/// Describes a begin that was refused, for the worker to record.
pub fn refused(call: &CellCall, lease: Option<Uuid>, conflicts: &[Conflict]) {
    refusals::record("refused", Some(call.cell_id), call.cell_id, lease, || described(&call.catalog, conflicts));
}

/// Returns the conflicts and their names, of many only the first.
fn described(catalog: &Catalog, conflicts: &[Conflict]) -> Map<String, Value> {
    let mut bytes = 0;
    let fits = |conflict: &&Conflict| {
        bytes += conflict.bucket.value.len();
        bytes <= MAX_NAME_BYTES
    };
    let listed = conflicts.iter().take(MAX_CONFLICTS).take_while(fits).count();
    let listed = &conflicts[..listed];
    let type_of = |conflict: &Conflict| {
        catalog.types.bucket.first_name(conflict.bucket.bucket_type).unwrap_or_default().to_owned()
    };
    let list = conflict::to_json(listed, &catalog.types).ok();
    let list = list.and_then(|text| serde_json::from_str::<Value>(&text).ok()).unwrap_or_default();
    let conflict = json!({ "conflicts": list, "omitted": conflicts.len() - listed.len() });
    let members = [
        ("ops", json!(listed.iter().map(|conflict| &conflict.op).collect::<Vec<_>>())),
        ("bucket_types", json!(listed.iter().map(type_of).collect::<Vec<_>>())),
        ("bucket_values", json!(listed.iter().map(|conflict| &*conflict.bucket.value).collect::<Vec<_>>())),
        ("conflict", conflict),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns the actor of this session.
pub fn actor() -> Actor {
    Actor {
        session_role: roles::name(roles::of_session()),
        address: session::client_address(),
        application: session::application_name(),
    }
}

/// Inserts descriptions that were fetched, and one row for those of each cell that were lost. The transaction must commit, or they are lost, too.
pub fn record_refusals(connection: &Connection, fetched: Fetched) {
    let Fetched { descriptions, lost } = fetched;
    let mut texts: Vec<_> = descriptions.into_iter().map(|description| description.text).collect();
    for (cell_id, count) in lost {
        let cell_id = (cell_id != refusals::NO_CELL).then_some(cell_id);
        let conflict = json!({ "lost": count });
        let row = json!({ "at_us": Moment::now().0, "id": next_id(), "what": "lost", "cell_id": cell_id, "conflict": conflict });
        texts.push(row.to_string());
    }
    if !texts.is_empty() {
        audit_log::record_described(connection, &texts);
    }
}
