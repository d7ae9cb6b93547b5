//! The audit log: who has changed which names, from where, and who was refused.
//!
//! Settled leases and fences are recorded in the transaction that settles or fences them, so the log has exactly those that
//! happened. Begins that were refused and denied calls go through shared memory ([`refusals`]).

use claims_model::{Bucket, Conflict, Types, conflict};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::pg::clock::Moment;
use crate::pg::spi::Connection;
use crate::pg::{roles, session};
use crate::refusals::{self, Fetched};
use crate::settings::{self, Audit};
use crate::store::catalog::Catalog;
use crate::tables::rows::audit::{Actor, AuditRow, next_id};
use crate::tables::rows::leases::Ending;
use crate::tables::shared::audit;
use crate::tables::{EndedLease, Tables};

/// The most conflicts, with their names, in one row.
const MAX_CONFLICTS: usize = 20;
/// The most bytes of these names together. Values have at most 2,600 bytes.
const MAX_NAME_BYTES: usize = 3000;

/// Records leases that this transaction has settled.
pub fn settled(
    tables: &dyn Tables,
    connection: &Connection,
    catalog: &Catalog,
    cell_id: i64,
    leases: &[EndedLease],
    ending: Ending,
    at: Moment,
) {
    if settings::audit() == Audit::Off || leases.is_empty() {
        return;
    }
    let actor = actor();
    let row = |lease| of_lease(&catalog.types, cell_id, lease, ending, at, &actor);
    let rows: Vec<_> = leases.iter().map(row).collect();
    tables.record_audit(connection, &rows);
}

fn of_lease<'r>(
    types: &'r Types,
    cell_id: i64,
    lease: &'r EndedLease,
    ending: Ending,
    at: Moment,
    actor: &'r Actor,
) -> AuditRow<'r> {
    let count = lease.held.claims();
    let mut row = AuditRow {
        at,
        cell_id,
        what: ending.outcome(),
        lease: lease.uuid,
        actor,
        ops: Vec::with_capacity(count),
        bucket_types: Vec::with_capacity(count),
        bucket_values: Vec::with_capacity(count),
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

/// Records unknown leases that this transaction has fenced.
pub fn fenced(tables: &dyn Tables, connection: &Connection, cell_id: i64, leases: &[Uuid]) {
    if settings::audit() != Audit::All {
        return;
    }
    let (actor, at) = (actor(), Moment::now());
    let nothing = || (Vec::new(), Vec::new(), Vec::new());
    let row = |lease: &Uuid| {
        let (ops, bucket_types, bucket_values) = nothing();
        AuditRow { at, cell_id, what: "fenced", lease: *lease, actor: &actor, ops, bucket_types, bucket_values }
    };
    let rows: Vec<_> = leases.iter().map(row).collect();
    tables.record_audit(connection, &rows);
}

/// Describes a begin that was refused, for the worker to record.
pub fn refused(catalog: &Catalog, cell_id: i64, lease: Option<Uuid>, conflicts: &[Conflict]) {
    refusals::record("refused", Some(cell_id), lease, || described(catalog, conflicts));
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

fn actor() -> Actor {
    Actor {
        session_role: roles::name(roles::of_session()),
        address: session::client_address(),
        application: session::application_name(),
    }
}

/// Inserts descriptions that were fetched, and one row for those that were lost. The transaction must commit, or they are lost, too.
pub fn record_refusals(connection: &Connection, fetched: Fetched) {
    let Fetched { mut descriptions, lost } = fetched;
    if lost > 0 {
        let row = json!({ "at_us": Moment::now().0, "id": next_id(), "what": "lost", "conflict": { "lost": lost } });
        descriptions.push(row.to_string());
    }
    if !descriptions.is_empty() {
        audit::record_described(connection, descriptions);
    }
}
