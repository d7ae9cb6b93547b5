//! `begin_update`, `try_begin_update` and `begin_update_text`: the SQL boundary, and the request that they make of their arguments.

use std::time::Instant;

use claims_model::json::{Document, NotJson};
use claims_model::mode::Need;
use claims_model::payload::{compared_text, request_digest};
use claims_model::token::Tokens;
use claims_model::{BadInput, Batch, Conflict, Problem, conflict};
use pgrx::Uuid as PgUuid;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use uuid::Uuid;

use super::acquire::{self, Acquired};
use super::payload::payload;
use super::request::Request;
use crate::access;
use crate::error::ClaimsError;
use crate::pg::clock::Moment;
use crate::pg::jsonb::{JsonText, Jsonb};
use crate::pg::spi::{self, Connection};
use crate::pg::uuid::{from_pg_uuid, pg_uuid};
use crate::pg::xid8::Xid8;
use crate::service::{admission, counters, durability, engine, naming};
use crate::settings;
use crate::store::catalog::{self, Catalog};
use crate::store::service::leases::NewLease;

/// A list of records, as it came.
enum Records {
    Jsonb(Jsonb),
    Text(Document),
}

impl Records {
    fn of_text(text: &str, name: &str) -> Result<Self, ClaimsError> {
        let document = Document::read(text)
            .map_err(|NotJson { line, column }| BadInput::new(name, Problem::NotJson { line, column }));
        Ok(Records::Text(document?))
    }

    fn tokens(&self) -> Box<dyn Tokens<'_> + '_> {
        match self {
            Records::Jsonb(jsonb) => Box::new(jsonb.tokens()),
            Records::Text(document) => Box::new(document.tokens()),
        }
    }
}

/// The arguments of these functions, as they came.
struct BeginArguments {
    cell_id: Option<i64>,
    create_records: Option<Records>,
    destroy_records: Option<Records>,
    lease_uuid: Option<PgUuid>,
    cell_xid: Option<Xid8>,
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn begin_update(
    cell_id: Option<i64>,
    create_records: default!(Option<Jsonb>, "'[]'"),
    destroy_records: default!(Option<Jsonb>, "'[]'"),
    lease_uuid: default!(Option<PgUuid>, "NULL"),
    cell_xid: default!(Option<Xid8>, "NULL"),
) -> Result<PgUuid, ErrorReport> {
    let (create_records, destroy_records) = (create_records.map(Records::Jsonb), destroy_records.map(Records::Jsonb));
    let arguments = BeginArguments { cell_id, create_records, destroy_records, lease_uuid, cell_xid };
    Ok(pg_uuid(begin(arguments, refuse)?))
}

/// For cells, which send many records at once: read as they come, these texts cost a fraction of what it costs to make jsonb of them
/// first.
#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn begin_update_text(
    cell_id: Option<i64>,
    create_records: Option<&str>,
    destroy_records: Option<&str>,
    lease_uuid: default!(Option<PgUuid>, "NULL"),
    cell_xid: default!(Option<Xid8>, "NULL"),
) -> Result<PgUuid, ErrorReport> {
    access::refuse_restricted()?;
    let create_records = create_records.map(|text| Records::of_text(text, "create_records")).transpose()?;
    let destroy_records = destroy_records.map(|text| Records::of_text(text, "destroy_records")).transpose()?;
    let arguments = BeginArguments { cell_id, create_records, destroy_records, lease_uuid, cell_xid };
    Ok(pg_uuid(begin(arguments, refuse)?))
}

fn refuse(conflicts: Vec<Conflict>, catalog: &Catalog) -> Result<Uuid, ClaimsError> {
    let weightiest = conflict::weightiest(&conflicts).ok_or(ClaimsError::LeaseBusy)?;
    let detail = conflict::to_json(&conflicts, &catalog.types)?;
    Err(ClaimsError::Conflicts { weightiest, count: conflicts.len(), detail })
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
#[allow(clippy::type_complexity)]
fn try_begin_update(
    cell_id: Option<i64>,
    create_records: default!(Option<Jsonb>, "'[]'"),
    destroy_records: default!(Option<Jsonb>, "'[]'"),
    lease_uuid: default!(Option<PgUuid>, "NULL"),
    cell_xid: default!(Option<Xid8>, "NULL"),
) -> Result<TableIterator<'static, (name!(lease_uuid, Option<PgUuid>), name!(conflicts, Option<JsonText>))>, ErrorReport>
{
    let (create_records, destroy_records) = (create_records.map(Records::Jsonb), destroy_records.map(Records::Jsonb));
    let arguments = BeginArguments { cell_id, create_records, destroy_records, lease_uuid, cell_xid };
    let mut found = None;
    let lease = begin(arguments, |conflicts, catalog| {
        found = Some(JsonText(conflict::to_json(&conflicts, &catalog.types)?));
        Ok(Uuid::nil())
    })?;
    let lease = found.is_none().then(|| pg_uuid(lease));
    Ok(TableIterator::once((lease, found)))
}

/// The straight line of a begin; what becomes of conflicts is the caller's.
fn begin(
    arguments: BeginArguments,
    on_conflicts: impl FnOnce(Vec<Conflict>, &Catalog) -> Result<Uuid, ClaimsError>,
) -> Result<Uuid, ClaimsError> {
    let began = Instant::now();
    let cell_id = access::given(arguments.cell_id, "cell_id")?;
    let create_records = access::given(arguments.create_records, "create_records")?;
    let destroy_records = access::given(arguments.destroy_records, "destroy_records")?;
    let catalog = catalog::current_without_spi();
    access::act_for(&catalog, cell_id)?;
    spi::connect(|connection| {
        let given_uuid = arguments.lease_uuid.map(from_pg_uuid);
        admission::admit_begin(connection, &catalog, cell_id, given_uuid)?;
        let read = |catalog: &Catalog| {
            let (mut creates, mut destroys) = (create_records.tokens(), destroy_records.tokens());
            Ok(Batch::read(&mut *creates, &mut *destroys, &catalog.types, settings::max_batch_size())?)
        };
        let (catalog, batch) = naming::settled(connection, catalog, read, can_change)?;
        admission::admit_batch(&catalog, cell_id, batch.records())?;
        let payload = payload(&batch, &catalog.types);
        let cell_xid = arguments.cell_xid;
        // A repeat is the same request also where a type was renamed in between, and in whatever spelling.
        let compared = compared_text(&batch, catalog.lasting_types())?;
        let digest = request_digest(&compared, cell_xid.map(|xid| xid.0));
        let first = || batch.wishes().next().map(|(_, bucket)| bucket);
        let uuid = given_uuid.unwrap_or_else(|| engine::current().new_lease(connection, first()));
        let lease = NewLease { uuid, cell_id, made_at: Moment::now(), payload, digest, cell_xid, chosen: None };
        let request = Request::new(&batch, lease, given_uuid.is_some(), &catalog.types);
        let acquired = acquire::acquire(connection, &request, Instant::now())?;
        note(cell_id, &acquired, began);
        match acquired {
            Acquired::Lease(begun) => {
                confirm(connection, cell_id)?;
                Ok(begun.lease)
            }
            Acquired::Conflicts(conflicts) => on_conflicts(conflicts, &catalog),
        }
    })
}

/// What a lease must pass before its cell is told of it: the mode may have changed while the begin waited, and the cell will rely on
/// the lease, so a crash must not undo it, whatever the cell's `synchronous_commit` says.
pub(super) fn confirm(connection: &Connection, cell_id: i64) -> Result<(), ClaimsError> {
    admission::admit_still(connection, cell_id, Need::Begin)?;
    durability::promise();
    Ok(())
}

/// Counts the answer to a begin.
pub(super) fn note(cell_id: i64, answer: &Acquired, began: Instant) {
    counters::begin_took(cell_id, began.elapsed());
    match answer {
        Acquired::Lease(begun) if begun.is_new => counters::begun(cell_id),
        Acquired::Lease(_) => {}
        Acquired::Conflicts(conflicts) => counters::refused(cell_id, conflict::weightiest(conflicts)),
    }
}

/// Whether the batch has names whose profile can change.
pub(super) fn can_change(batch: &Batch) -> bool {
    batch.wishes().any(|(_, bucket)| naming::can_change(bucket.bucket_type))
}
