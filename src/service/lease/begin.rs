//! `begin_update`, `try_begin_update`, `begin_update_text` and `begin_first`: the SQL functions that begin a lease.

use std::rc::Rc;
use std::time::{Duration, Instant};

use claims_json::Tokens;
use claims_model::json::{Document, NotJson};
use claims_model::mode::Need;
use claims_model::{BadInput, Batch, Conflict, Problem, conflict};
use uuid::Uuid;

use super::acquire::Acquired;
use super::first::{self, Alternatives, Common, ConflictsOf};
use super::request::Begun;
use super::wait::{self, LeaseWait, Seen};
use crate::error::ClaimsError;
use crate::service::{admission, audit, counters, durability, naming, waiters};
use crate::store::catalog::{self, Catalog};
use crate::tables::shared::leases;
use crate::tables::{self, Tables};
use crate::{access, arguments, settings};
use pg::jsonb::{JsonText, Jsonb};
use pg::prelude::*;
use pg::spi::Connection;
use pg::subtransaction::{Undone, subtransaction};
use pg::uuid::{from_pg_uuid, pg_uuid};
use pg::xact;
use pg::xid8::Xid8;

/// An argument with a list of records.
pub(super) enum Records {
    Jsonb(Jsonb),
    Text(Document),
}

impl Records {
    pub(super) fn of_text(text: &str, name: &str) -> Result<Self, ClaimsError> {
        let document = Document::read(text)
            .map_err(|NotJson { line, column }| BadInput::new(name, Problem::NotJson { line, column }));
        Ok(Records::Text(document?))
    }

    pub(super) fn tokens(&self) -> Box<dyn Tokens<'_> + '_> {
        match self {
            Records::Jsonb(jsonb) => Box::new(jsonb.tokens()),
            Records::Text(document) => Box::new(document.tokens()),
        }
    }
}

#[pg_extern(name = "begin_update", schema = "claims")]
fn begin_update_2(
    cell_id: Option<i64>,
    create_records: default!(Option<Jsonb>, "'[]'"),
    destroy_records: default!(Option<Jsonb>, "'[]'"),
    lease_uuid: default!(Option<PgUuid>, "NULL"),
    cell_xid: default!(Option<Xid8>, "NULL"),
    skip_missing: default!(Option<bool>, "false"),
) -> Result<PgUuid, ErrorReport> {
    let (create_records, destroy_records) = (create_records.map(Records::Jsonb), destroy_records.map(Records::Jsonb));
    Ok(begin_one(
        Wanted { cell_id, lease_uuid, cell_xid, skip_missing },
        [create_records, destroy_records],
        lease_or_error,
    )?)
}

/// Begins a lease for cells, which send many records at once. Reading the text directly costs a fraction of converting it to
/// jsonb first.
#[pg_extern(name = "begin_update_text", schema = "claims")]
fn begin_update_text_2(
    cell_id: Option<i64>,
    create_records: default!(Option<&str>, "'[]'"),
    destroy_records: default!(Option<&str>, "'[]'"),
    lease_uuid: default!(Option<PgUuid>, "NULL"),
    cell_xid: default!(Option<Xid8>, "NULL"),
    skip_missing: default!(Option<bool>, "false"),
) -> Result<PgUuid, ErrorReport> {
    access::refuse_restricted()?;
    let create_records = create_records.map(|text| Records::of_text(text, "create_records")).transpose()?;
    let destroy_records = destroy_records.map(|text| Records::of_text(text, "destroy_records")).transpose()?;
    Ok(begin_one(
        Wanted { cell_id, lease_uuid, cell_xid, skip_missing },
        [create_records, destroy_records],
        lease_or_error,
    )?)
}

/// Returns the lease, or raises the conflicts.
pub(super) fn lease_or_error(acquired: Acquired, catalog: &Catalog) -> Result<PgUuid, ClaimsError> {
    let conflicts: Vec<Conflict> = match acquired {
        Acquired::Lease(begun) => return Ok(pg_uuid(begun.lease)),
        Acquired::Conflicts(conflicts) => conflicts,
    };
    let decisive = conflict::decisive_reason(&conflicts).ok_or(ClaimsError::LeaseBusy)?;
    let detail = conflict::to_detail(&conflicts, &catalog.types)?;
    Err(ClaimsError::Conflicts { decisive, count: conflicts.len(), detail })
}

#[pg_extern(name = "try_begin_update", schema = "claims")]
fn try_begin_update_2(
    cell_id: Option<i64>,
    create_records: default!(Option<Jsonb>, "'[]'"),
    destroy_records: default!(Option<Jsonb>, "'[]'"),
    lease_uuid: default!(Option<PgUuid>, "NULL"),
    cell_xid: default!(Option<Xid8>, "NULL"),
    skip_missing: default!(Option<bool>, "false"),
) -> Result<TableIterator<'static, (name!(lease_uuid, Option<PgUuid>), name!(conflicts, Option<JsonText>))>, ErrorReport>
{
    let (create_records, destroy_records) = (create_records.map(Records::Jsonb), destroy_records.map(Records::Jsonb));
    let row = begin_one(
        Wanted { cell_id, lease_uuid, cell_xid, skip_missing },
        [create_records, destroy_records],
        |acquired, catalog| {
            Ok(match acquired {
                Acquired::Lease(begun) => (Some(pg_uuid(begun.lease)), None),
                Acquired::Conflicts(conflicts) => {
                    (None, Some(JsonText(conflict::to_json(&conflicts, &catalog.types)?)))
                }
            })
        },
    )?;
    Ok(TableIterator::once(row))
}

/// Begins a lease for one batch of creates and destroys. `answer` converts the result.
fn begin_one<T>(
    wanted: Wanted,
    [creates, destroys]: [Option<Records>; 2],
    answer: impl Fn(Acquired, &Catalog) -> Result<T, ClaimsError>,
) -> Result<T, ClaimsError> {
    let cell_id = arguments::required(wanted.cell_id, "cell_id")?;
    let creates = arguments::required(creates, "create_records")?;
    let destroys = arguments::required(destroys, "destroy_records")?;
    let skip_missing = arguments::required(wanted.skip_missing, "skip_missing")?;
    let read = |catalog: &Catalog| {
        let (mut creates, mut destroys) = (creates.tokens(), destroys.tokens());
        let batch = Batch::read(&mut *creates, &mut *destroys, &catalog.types, settings::max_batch_size())?;
        Ok(Alternatives::one(batch, skip_missing))
    };
    begin(Wanted { cell_id: Some(cell_id), ..wanted }, read, answer)
}

#[pg_extern(name = "begin_first", schema = "claims")]
fn begin_first_2(
    cell_id: Option<i64>,
    alternatives: Option<Jsonb>,
    lease_uuid: default!(Option<PgUuid>, "NULL"),
    cell_xid: default!(Option<Xid8>, "NULL"),
    skip_missing: default!(Option<bool>, "false"),
) -> Result<
    TableIterator<
        'static,
        (name!(lease_uuid, Option<PgUuid>), name!(chosen, Option<i32>), name!(conflicts, Option<JsonText>)),
    >,
    ErrorReport,
> {
    let wanted = Wanted { cell_id: Some(arguments::required(cell_id, "cell_id")?), lease_uuid, cell_xid, skip_missing };
    let alternatives = arguments::required(alternatives, "alternatives")?;
    let skip_missing = arguments::required(skip_missing, "skip_missing")?;
    let read = |catalog: &Catalog| {
        let mut tokens = alternatives.tokens();
        let batches = Batch::read_alternatives(&mut tokens, &catalog.types, settings::max_batch_size())?;
        Ok(Alternatives::several(batches, skip_missing))
    };
    let row = begin(wanted, read, |acquired, catalog| {
        Ok(match acquired {
            Acquired::Lease(begun) => (Some(pg_uuid(begun.lease)), begun.chosen.map(i32::from), None),
            Acquired::Conflicts(conflicts) => {
                (None, None, Some(JsonText(conflict::to_json(&conflicts, &catalog.types)?)))
            }
        })
    })?;
    Ok(TableIterator::once(row))
}

/// The arguments that all functions that begin a lease share.
struct Wanted {
    cell_id: Option<i64>,
    lease_uuid: Option<PgUuid>,
    cell_xid: Option<Xid8>,
    skip_missing: Option<bool>,
}

/// Begins a lease: reads the batches, and takes the first one that is available. Waits for one if the session wants that.
/// `answer` converts the result.
fn begin<'r, T>(
    wanted: Wanted,
    read: impl Fn(&Catalog) -> Result<Alternatives<'r>, ClaimsError>,
    answer: impl Fn(Acquired, &Catalog) -> Result<T, ClaimsError>,
) -> Result<T, ClaimsError> {
    let began = Instant::now();
    let cell_id = arguments::required(wanted.cell_id, "cell_id")?;
    let mut lease_wait = LeaseWait::of_session(cell_id, began);
    loop {
        if let Some(lease_wait) = &mut lease_wait {
            lease_wait.wait(|lease_wait| look(&wanted, cell_id, &read, lease_wait))?;
        }
        let answered = match lease_wait {
            Some(_) => undone_unless_answered(|| attempt(&wanted, cell_id, began, &read, &answer, &mut lease_wait)),
            None => attempt(&wanted, cell_id, began, &read, &answer, &mut lease_wait),
        };
        match (answered, &mut lease_wait) {
            (Ok(Some(answer)), _) => return Ok(answer),
            (Ok(None), _) => {}
            (Err(error), Some(lease_wait)) if lease_wait.outlasts(&error) => lease_wait.pause(),
            (Err(error), _) => return Err(error),
        }
    }
}

/// Rolls back an attempt after which the call waits again, so that it holds no lock meanwhile: neither on the profiles nor on
/// the tables. Only a transaction id cannot be given back.
fn undone_unless_answered<T>(
    attempt: impl FnOnce() -> Result<Option<T>, ClaimsError>,
) -> Result<Option<T>, ClaimsError> {
    match subtransaction(&[], || attempt().map_err(Some)?.ok_or(None)) {
        Ok(answer) => Ok(Some(answer)),
        Err(Undone::ByBody(error)) => error.map_or(Ok(None), Err),
        Err(Undone::ByError(code)) => unreachable!("{code:?} is raised again"),
    }
}

/// Returns the catalog after a check of the caller's rights.
fn admitted_caller(cell_id: i64) -> Result<Rc<Catalog>, ClaimsError> {
    let catalog = catalog::current_without_spi();
    access::act_for(&catalog, cell_id)?;
    wait::check_priority(&catalog, cell_id)?;
    Ok(catalog)
}

/// Looks at the batches of a call that waits. Writes nothing.
fn look<'r>(
    wanted: &Wanted,
    cell_id: i64,
    read: impl Fn(&Catalog) -> Result<Alternatives<'r>, ClaimsError>,
    lease_wait: &mut LeaseWait,
) -> Result<Seen, ClaimsError> {
    let catalog = admitted_caller(cell_id)?;
    tables::connect_as_owner(|tables, connection| {
        // An attempt on locked tables would fail, and count as a begin.
        leases::refuse_locked_tables(Instant::now())?;
        admission::admit(tables, &catalog, cell_id, Need::Begin)?;
        let (catalog, alternatives) = naming::with_locked_profiles(connection, catalog, &read)?;
        alternatives.batches.iter().try_for_each(|batch| admission::admit_batch(&catalog, cell_id, batch.records()))?;
        let given_uuid = wanted.lease_uuid.map(from_pg_uuid);
        let (uuid, may_be_repeat) = (given_uuid.unwrap_or_default(), given_uuid.is_some());
        let (digest, began, conflicts_of) = ([0; 32], Instant::now(), ConflictsOf::LastTemporary);
        let (cell_xid, expects_conflicts) = (wanted.cell_xid, false);
        let common =
            Common { tables, cell_id, uuid, may_be_repeat, digest, cell_xid, began, conflicts_of, expects_conflicts };
        Ok(first::look(connection, &catalog, &alternatives, &common, lease_wait))
    })
}

/// Takes the first batch that is available. Returns `None` if the call waits again.
fn attempt<'r, T>(
    wanted: &Wanted,
    cell_id: i64,
    began: Instant,
    read: impl Fn(&Catalog) -> Result<Alternatives<'r>, ClaimsError>,
    answer: impl Fn(Acquired, &Catalog) -> Result<T, ClaimsError>,
    lease_wait: &mut Option<LeaseWait>,
) -> Result<Option<T>, ClaimsError> {
    let waited = lease_wait.as_ref().map(LeaseWait::waited).unwrap_or_default();
    let catalog = admitted_caller(cell_id)?;
    tables::connect_as_owner(|tables, connection| {
        let given_uuid = wanted.lease_uuid.map(from_pg_uuid);
        admission::admit_begin(tables, connection, &catalog, cell_id, given_uuid)?;
        let (catalog, alternatives) = naming::with_locked_profiles(connection, catalog, read)?;
        alternatives.batches.iter().try_for_each(|batch| admission::admit_batch(&catalog, cell_id, batch.records()))?;
        let digest = alternatives.digest(&catalog, wanted.cell_xid);
        let uuid = given_uuid.unwrap_or_else(|| alternatives.new_uuid(tables, connection));
        let (may_be_repeat, cell_xid) = (given_uuid.is_some(), wanted.cell_xid);
        // claims.wait_timeout begins when the call has waited.
        let began = began + waited;
        let conflicts_of = if lease_wait.is_some() { ConflictsOf::LastTemporary } else { ConflictsOf::Last };
        let expects_conflicts = lease_wait.as_ref().is_some_and(LeaseWait::is_refused);
        let common =
            Common { tables, cell_id, uuid, may_be_repeat, digest, cell_xid, began, conflicts_of, expects_conflicts };
        let mut acquired = first::take_first(connection, &catalog, &alternatives, &common)?;
        if lease_wait.as_ref().is_some_and(|lease_wait| lease_wait.continues(&acquired)) {
            return Ok(None);
        }
        if let Some(lease_wait) = lease_wait.take() {
            lease_wait.end(&mut acquired, &alternatives.batches);
        }
        note(&catalog, cell_id, given_uuid, &acquired, began.elapsed());
        if let Acquired::Lease(begun) = &acquired {
            confirm(tables, connection, cell_id)?;
            remember(begun, &alternatives);
        }
        answer(acquired, &catalog).map(Some)
    })
}

/// Checks the mode again, which may have changed while the begin waited. Makes the commit durable whatever the cell's
/// `synchronous_commit` is, because the cell will rely on the lease.
fn confirm(tables: &dyn Tables, connection: &Connection, cell_id: i64) -> Result<(), ClaimsError> {
    admission::admit_still(tables, connection, cell_id, Need::Begin)?;
    durability::promise();
    Ok(())
}

/// Remembers the names of a lease that the transaction may meet again.
pub(super) fn remember(begun: &Begun, alternatives: &Alternatives) {
    if xact::is_in_block() {
        waiters::begun_here(begun.buckets(&alternatives.batches));
    }
}

/// Counts the answer to a begin, and has a refusal recorded.
pub(super) fn note(catalog: &Catalog, cell_id: i64, lease: Option<Uuid>, answer: &Acquired, took: Duration) {
    counters::begin_took(cell_id, took);
    match answer {
        Acquired::Lease(begun) if begun.is_new => {
            counters::begun(cell_id);
            counters::skipped(cell_id, begun.skipped.iter().map(|(_, reason)| *reason));
        }
        Acquired::Lease(_) => {}
        Acquired::Conflicts(conflicts) => {
            counters::refused(cell_id, conflict::decisive_reason(conflicts));
            audit::refused(catalog, cell_id, lease, conflicts);
        }
    }
}
