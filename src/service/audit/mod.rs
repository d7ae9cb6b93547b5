//! The audit log: who has changed which names, from where, and who was refused.
//!
//! Settled leases and fences are recorded in the transaction that settles or fences them, so the log has exactly those that
//! happened; so are names that change hands without a lease. Of fences it has as many a second as the cell's rate allows. Begins that were refused and denied calls go through shared memory ([`refusals`]).

pub mod audit_log;
mod tables;

pub use self::tables::*;

use std::collections::HashMap;

use claims_model::attribution::Attribution;
use claims_model::history::name_key;
use claims_model::{Batch, Bucket, Claim, Conflict, Op, Reference, conflict};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::claims::{EndedLease, Ending};
use crate::kernel::audit_id::next_id;
use crate::kernel::call::CellCall;
use crate::kernel::catalog::Catalog;
use crate::kernel::error::ClaimsError;
use crate::kernel::refusals::{self, Fetched};
use crate::kernel::settings::{self, Audit};
use crate::kernel::{attribution, pace};
use crate::service::claims::{CLAIM_TABLES, Owner, StoredOwner};
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

/// The owners of names before they change, as far as the log needs them.
pub type Owners = HashMap<Bucket<'static>, StoredOwner>;

/// Returns the owners of the names that leases hold, before the leases are settled. The owner of a name that is created is its new one, which
/// `created` reads from the lease's payload: that takes less than to look its claim up, and a name that a lease reclaims is not a claim yet.
pub fn owners<'p>(
    call: &CellCall,
    leases: &[EndedLease],
    created: impl FnOnce() -> Result<Vec<(Uuid, Claim<'p>)>, ClaimsError>,
) -> Result<Owners, ClaimsError> {
    if settings::audit() == Audit::Off {
        return Ok(Owners::new());
    }
    let had_owners = leases
        .iter()
        .flat_map(|EndedLease { held, .. }| held.replaces.iter().map(|claim| &claim.bucket).chain(&held.destroys));
    let mut owners = owners_of(call, &had_owners.collect::<Vec<_>>());
    if leases.iter().any(|lease| !lease.held.creates.is_empty()) {
        add_owners(&mut owners, created()?.iter().map(|(_, claim)| claim));
    }
    Ok(owners)
}

/// Adds the owners of claims on names that are not in the map yet: a payload has the new owners of names that are replaced, too.
fn add_owners<'c>(owners: &mut Owners, claims: impl Iterator<Item = &'c Claim<'c>>) {
    for Claim { bucket, subject, source, .. } in claims {
        let bucket = Bucket { bucket_type: bucket.bucket_type, value: bucket.value.to_string().into() };
        owners.entry(bucket).or_insert_with(|| StoredOwner { subject: owned(subject), source: owned(source) });
    }
}

/// Returns the owners of the names of a batch that is claimed at once, before that happens.
pub fn owners_of_batch(call: &CellCall, batch: &Batch) -> Owners {
    if settings::audit() == Audit::Off {
        return Owners::new();
    }
    let destroyed: Vec<&Bucket> = batch.destroys.iter().map(|destroy| &destroy.bucket).collect();
    let mut owners = owners_of(call, &destroyed);
    add_owners(&mut owners, batch.new_claims());
    owners
}

/// Returns the owners of claims.
fn owners_of(call: &CellCall, claimed: &[&Bucket]) -> Owners {
    if claimed.is_empty() { Owners::new() } else { CLAIM_TABLES.of(call).owners(call.connection, claimed) }
}

fn owned(to: &Reference) -> Reference<'static> {
    Reference { type_id: to.type_id, id: to.id.to_string().into() }
}

/// Records leases that this transaction has settled.
pub fn settled(call: &CellCall, leases: &[EndedLease], owners: &Owners, ending: Ending, at: Moment) {
    if settings::audit() == Audit::Off || leases.is_empty() {
        return;
    }
    let (actor, types) = (actor(), &call.catalog.types);
    let row = |lease: &EndedLease| {
        let (names, attribution) = (NameColumns::of(&names_of(lease, owners), types), lease.attribution.clone());
        let row = nameless(at, call.cell_id, ending.outcome(), &actor);
        AuditRow { lease: Some(lease.uuid), names, attribution, ..row }
    };
    let rows: Vec<_> = leases.iter().map(row).collect();
    AUDIT_TABLES.of(call).record_audit(call.connection, &rows);
}

/// Returns the names of a lease, with their owners before and after its commit.
fn names_of<'n>(lease: &'n EndedLease, owners: &'n Owners) -> Vec<AuditedName<'n>> {
    let stored = |bucket: &'n Bucket<'n>| -> Option<Owner<'n>> { owners.get(bucket).map(StoredOwner::owner) };
    let held = &lease.held;
    let created = |bucket: &'n Bucket<'n>| AuditedName { op: "create", bucket, old: None, new: stored(bucket) };
    let destroyed = |bucket: &'n Bucket<'n>| AuditedName { op: "destroy", bucket, old: stored(bucket), new: None };
    let replaced = |claim: &'n Claim<'n>| {
        let Claim { bucket, subject, source, .. } = claim;
        AuditedName { op: "replace", bucket, old: stored(bucket), new: Some(Owner { subject, source }) }
    };
    let mut names: Vec<AuditedName<'n>> = Vec::with_capacity(held.claims());
    names.extend(held.creates.iter().map(created));
    names.extend(held.replaces.iter().map(replaced));
    names.extend(held.destroys.iter().map(destroyed));
    names
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

/// Returns a row without a lease and without names, of which the client says what its session says.
pub fn nameless<'a>(at: Moment, cell_id: i64, what: &'static str, actor: &'a Actor) -> AuditRow<'a> {
    let (lease, lost, names, old_cell_id) = Default::default();
    AuditRow { at, cell_id, what, lease, actor, lost, names, attribution: attribution::of_session(), old_cell_id }
}

/// Records names that a call has claimed or freed without a lease, and which other cell had them before, if there was one.
pub fn changed(call: &CellCall, old_cell_id: Option<i64>, what: &'static str, names: &[AuditedName]) {
    if settings::audit() == Audit::Off {
        return;
    }
    let (actor, at) = (actor(), Moment::now());
    for portion in names.chunks(NAMES_PER_ROW) {
        let names = NameColumns::of(portion, &call.catalog.types);
        let row = AuditRow { names, old_cell_id, ..nameless(at, call.cell_id, what, &actor) };
        AUDIT_TABLES.of(call).record_audit(call.connection, &[row]);
    }
}

/// Describes a begin that was refused, for the worker to record.
pub fn refused(
    call: &CellCall,
    attribution: &Attribution,
    lease: Option<Uuid>,
    conflicts: &[Conflict],
    batches: &[Batch],
) {
    let describe = || {
        let mut members = refusal(&call.catalog, conflicts, batches);
        members.insert("context".to_owned(), json!(attribution.context));
        members.insert("cell_role".to_owned(), json!(attribution.cell_role));
        members
    };
    refusals::record("refused", Some(call.cell_id), call.cell_id, lease, describe);
}

/// Returns the conflicts and their names, of many only the first.
fn refusal(catalog: &Catalog, conflicts: &[Conflict], batches: &[Batch]) -> Map<String, Value> {
    let mut bytes = 0;
    let fits = |conflict: &&Conflict| {
        bytes += conflict.bucket.value.len();
        bytes <= MAX_NAME_BYTES
    };
    let listed = conflicts.iter().take(MAX_CONFLICTS).take_while(fits).count();
    let listed = &conflicts[..listed];
    let list = conflict::to_json(listed, &catalog.types).ok();
    let list = list.and_then(|text| serde_json::from_str::<Value>(&text).ok()).unwrap_or_default();
    let conflict = json!({ "conflicts": list, "omitted": conflicts.len() - listed.len() });
    let names: Vec<_> = listed.iter().map(|conflict| wanted(conflict, batches)).collect();
    // DETAIL also has the names that look like those of the batch.
    let look_alikes = listed.iter().filter_map(|conflict| {
        conflict.similar_to.as_deref().map(|similar| name_key(conflict.bucket.bucket_type, similar))
    });
    let mut members = NameColumns::of(&names, &catalog.types).found_by(look_alikes).into_json();
    members.insert("conflict".to_owned(), conflict);
    members
}

/// Returns the name of a conflict, with the owner that it was to have.
fn wanted<'n>(conflict: &'n Conflict, batches: &'n [Batch]) -> AuditedName<'n> {
    let bucket = &conflict.bucket;
    match conflict.op {
        Op::Destroy => AuditedName { op: "destroy", bucket, old: None, new: None },
        Op::Create => {
            let claim = batches.iter().flat_map(|batch| &batch.creates).find(|claim| claim.bucket == *bucket);
            let new = claim.map(|Claim { subject, source, .. }| Owner { subject, source });
            AuditedName { op: "create", bucket, old: None, new }
        }
    }
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
