//! `begin_update`, `try_begin_update`, `begin_update_text` and `begin_first`: the SQL functions that begin a lease.

use std::time::Instant;

use claims_json::Tokens;
use claims_model::attribution::Attribution;
use claims_model::json::{Document, NotJson};
use claims_model::mode::Need;
use claims_model::{BadInput, Batch, Conflict, Problem, conflict};
use uuid::Uuid;

use super::acquire::Acquired;
use super::errors::LeaseError;
use super::first::{self, Alternatives};
use super::request::{BeginAttempt, BegunLease, ConflictsOf};
use super::wait::{self, LeaseWait, Seen};
use crate::kernel::call::CellCall;
use crate::kernel::catalog::Catalog;
use crate::kernel::error::ClaimsError;
use crate::kernel::{access, arguments, attribution, settings, unique_types};
use crate::service::claims::leases;
use crate::service::{admission, audit, counters, durability, naming, waiters};
use pg::jsonb::{JsonText, Jsonb};
use pg::prelude::*;
use pg::subtransaction::{Undone, subtransaction};
use pg::uuid::{from_pg_uuid, pg_uuid};
use pg::xact;
use pg::xid8::Xid8;

/// An argument with a list of records.
pub(super) enum RecordList {
    Jsonb(Jsonb),
    Text(Document),
}

impl RecordList {
    pub(super) fn of_text(text: &str, name: &str) -> Result<Self, ClaimsError> {
        let document = Document::read(text)
            .map_err(|NotJson { line, column }| BadInput::new(name, Problem::NotJson { line, column }));
        Ok(RecordList::Text(document?))
    }

    pub(super) fn tokens(&self) -> Box<dyn Tokens<'_> + '_> {
        match self {
            RecordList::Jsonb(jsonb) => Box::new(jsonb.tokens()),
            RecordList::Text(document) => Box::new(document.tokens()),
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
    let (create_records, destroy_records) =
        (create_records.map(RecordList::Jsonb), destroy_records.map(RecordList::Jsonb));
    Ok(begin_one(
        LeaseArguments::new(cell_id, lease_uuid, cell_xid)?,
        [create_records, destroy_records],
        skip_missing,
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
    context: default!(Option<&str>, "NULL"),
    cell_role: default!(Option<&str>, "NULL"),
) -> Result<PgUuid, ErrorReport> {
    access::refuse_restricted()?;
    let create_records = create_records.map(|text| RecordList::of_text(text, "create_records")).transpose()?;
    let destroy_records = destroy_records.map(|text| RecordList::of_text(text, "destroy_records")).transpose()?;
    let arguments = LeaseArguments::new(cell_id, lease_uuid, cell_xid)?;
    Ok(begin_one(
        LeaseArguments { attribution: attribution::of_call(context, cell_role)?, ..arguments },
        [create_records, destroy_records],
        skip_missing,
        lease_or_error,
    )?)
}

/// Returns the lease, or raises the conflicts.
pub(super) fn lease_or_error(acquired: Acquired, catalog: &Catalog) -> Result<PgUuid, ClaimsError> {
    let conflicts: Vec<Conflict> = match acquired {
        Acquired::Lease(begun) => return Ok(pg_uuid(begun.lease)),
        Acquired::Conflicts(conflicts) => conflicts,
    };
    let decisive = conflict::decisive_reason(&conflicts).ok_or(LeaseError::Busy)?;
    let detail = conflict::to_detail(&conflicts, &catalog.types)?;
    Err(LeaseError::Conflicts { decisive, count: conflicts.len(), detail }.into())
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
    let (create_records, destroy_records) =
        (create_records.map(RecordList::Jsonb), destroy_records.map(RecordList::Jsonb));
    let row = begin_one(
        LeaseArguments::new(cell_id, lease_uuid, cell_xid)?,
        [create_records, destroy_records],
        skip_missing,
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
    arguments: LeaseArguments,
    [creates, destroys]: [Option<RecordList>; 2],
    skip_missing: Option<bool>,
    answer: impl Fn(Acquired, &Catalog) -> Result<T, ClaimsError>,
) -> Result<T, ClaimsError> {
    let creates = arguments::required(creates, "create_records")?;
    let destroys = arguments::required(destroys, "destroy_records")?;
    let skip_missing = arguments::required(skip_missing, "skip_missing")?;
    let read = |catalog: &Catalog| {
        let (mut creates, mut destroys) = (creates.tokens(), destroys.tokens());
        let batch = Batch::read(&mut *creates, &mut *destroys, &catalog.types, settings::max_batch_size())?;
        refuse_uniques(std::slice::from_ref(&batch), catalog)?;
        Ok(Alternatives::one(batch, skip_missing))
    };
    begin(&arguments, read, answer)
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
    let lease = LeaseArguments::new(cell_id, lease_uuid, cell_xid)?;
    let alternatives = arguments::required(alternatives, "alternatives")?;
    let skip_missing = arguments::required(skip_missing, "skip_missing")?;
    let read = |catalog: &Catalog| {
        let mut tokens = alternatives.tokens();
        let batches = Batch::read_alternatives(&mut tokens, &catalog.types, settings::max_batch_size())?;
        refuse_uniques(&batches, catalog)?;
        Ok(Alternatives::several(batches, skip_missing))
    };
    let row = begin(&lease, read, |acquired, catalog| {
        Ok(match acquired {
            Acquired::Lease(begun) => (Some(pg_uuid(begun.lease)), begun.chosen.map(i32::from), None),
            Acquired::Conflicts(conflicts) => {
                (None, None, Some(JsonText(conflict::to_json(&conflicts, &catalog.types)?)))
            }
        })
    })?;
    Ok(TableIterator::once(row))
}

/// Refuses claims on values of unique columns, which follow the rows of this database and nothing else.
fn refuse_uniques(batches: &[Batch], catalog: &Catalog) -> Result<(), ClaimsError> {
    match unique_types::first_of(batches.iter().flat_map(Batch::buckets).map(|bucket| bucket.bucket_type)) {
        Some(id) => {
            Err(LeaseError::OfUnique { name: catalog.types.bucket.name(id).unwrap_or_default().to_owned() }.into())
        }
        None => Ok(()),
    }
}

/// The arguments that all functions that begin a lease share, and when the call began.
struct LeaseArguments {
    cell_id: i64,
    /// The uuid that the caller has chosen.
    given: Option<Uuid>,
    cell_xid: Option<Xid8>,
    /// The word of the client about who acts.
    attribution: Attribution,
    began: Instant,
}

impl LeaseArguments {
    fn new(cell_id: Option<i64>, lease: Option<PgUuid>, cell_xid: Option<Xid8>) -> Result<Self, ClaimsError> {
        let cell_id = arguments::required(cell_id, "cell_id")?;
        let (given, attribution) = (lease.map(from_pg_uuid), attribution::of_session());
        Ok(LeaseArguments { cell_id, given, cell_xid, attribution, began: Instant::now() })
    }
}

/// Begins a lease: reads the batches, and takes the first one that is available. Waits for one if the session wants that.
/// `answer` converts the result.
fn begin<'r, T>(
    arguments: &LeaseArguments,
    read: impl Fn(&Catalog) -> Result<Alternatives<'r>, ClaimsError>,
    answer: impl Fn(Acquired, &Catalog) -> Result<T, ClaimsError>,
) -> Result<T, ClaimsError> {
    let mut lease_wait = LeaseWait::of_session(arguments.cell_id, arguments.began);
    loop {
        if let Some(lease_wait) = &mut lease_wait {
            lease_wait.wait(|lease_wait| look(arguments, &read, lease_wait))?;
        }
        let answered = match lease_wait {
            Some(_) => in_savepoint(|| attempt(arguments, &read, &answer, &mut lease_wait)),
            None => attempt(arguments, &read, &answer, &mut lease_wait),
        };
        match (answered, &mut lease_wait) {
            (Ok(Some(answer)), _) => return Ok(answer),
            (Ok(None), _) => {}
            (Err(error), Some(lease_wait)) if lease_wait.outlasts(&error) => lease_wait.pause(),
            (Err(error), _) => return Err(error),
        }
    }
}

/// Runs an attempt in a subtransaction, and rolls it back unless it has an answer: a call that waits again holds no lock meanwhile,
/// neither on the profiles nor on the tables. Only a transaction id cannot be given back.
fn in_savepoint<T>(attempt: impl FnOnce() -> Result<Option<T>, ClaimsError>) -> Result<Option<T>, ClaimsError> {
    match subtransaction(&[], || attempt().map_err(Some)?.ok_or(None)) {
        Ok(answer) => Ok(Some(answer)),
        Err(Undone::ByBody(error)) => error.map_or(Ok(None), Err),
        Err(Undone::ByError(code)) => unreachable!("{code:?} is raised again"),
    }
}

/// Looks at the batches of a call that waits. Writes nothing.
fn look<'r>(
    arguments: &LeaseArguments,
    read: impl Fn(&Catalog) -> Result<Alternatives<'r>, ClaimsError>,
    lease_wait: &mut LeaseWait,
) -> Result<Seen, ClaimsError> {
    let LeaseArguments { cell_id, given, cell_xid, .. } = *arguments;
    CellCall::run_as_owner(Some(cell_id), Instant::now(), |call| {
        wait::check_priority(call)?;
        // An attempt on locked tables would fail, and count as a begin.
        leases::refuse_locked_tables(Instant::now())?;
        admission::admit(call, Need::Begin)?;
        let (call, alternatives) = read_batches(call, &read)?;
        let attempt = BeginAttempt {
            call: &call,
            uuid: given.unwrap_or_default(),
            may_be_repeat: given.is_some(),
            digest: [0; 32],
            cell_xid,
            attribution: &arguments.attribution,
            conflicts_of: ConflictsOf::LastTemporary,
            expects_conflicts: false,
        };
        Ok(first::look(&attempt, &alternatives, lease_wait))
    })
}

/// Takes the first batch that is available. Returns `None` if the call waits again.
fn attempt<'r, T>(
    arguments: &LeaseArguments,
    read: impl Fn(&Catalog) -> Result<Alternatives<'r>, ClaimsError>,
    answer: impl Fn(Acquired, &Catalog) -> Result<T, ClaimsError>,
    lease_wait: &mut Option<LeaseWait>,
) -> Result<Option<T>, ClaimsError> {
    let LeaseArguments { cell_id, given, cell_xid, began, .. } = *arguments;
    let waited = lease_wait.as_ref().map(LeaseWait::waited).unwrap_or_default();
    // claims.wait_timeout begins when the call has waited.
    CellCall::run_as_owner(Some(cell_id), began + waited, |call| {
        wait::check_priority(call)?;
        admission::admit_begin(call, given)?;
        let (call, alternatives) = read_batches(call, &read)?;
        let attempt = BeginAttempt {
            call: &call,
            uuid: given.unwrap_or_else(|| alternatives.new_uuid(&call)),
            may_be_repeat: given.is_some(),
            digest: alternatives.digest(&call.catalog, cell_xid),
            cell_xid,
            attribution: &arguments.attribution,
            conflicts_of: if lease_wait.is_some() { ConflictsOf::LastTemporary } else { ConflictsOf::Last },
            expects_conflicts: lease_wait.as_ref().is_some_and(LeaseWait::is_refused),
        };
        let mut acquired = first::take_first(&attempt, &alternatives)?;
        if lease_wait.as_ref().is_some_and(|lease_wait| lease_wait.continues(&acquired)) {
            return Ok(None);
        }
        if let Some(lease_wait) = lease_wait.take() {
            lease_wait.end(&mut acquired, &alternatives.batches);
        }
        note(&attempt, given, &acquired, &alternatives.batches);
        if let Acquired::Lease(begun) = &acquired {
            confirm(&call)?;
            remember(begun, &alternatives);
        }
        answer(acquired, &call.catalog).map(Some)
    })
}

/// Reads the batches under locked profiles. Returns the call with the catalog by which they were read.
pub(super) fn read_batches<'c, 'r>(
    call: &CellCall<'c>,
    read: impl Fn(&Catalog) -> Result<Alternatives<'r>, ClaimsError>,
) -> Result<(CellCall<'c>, Alternatives<'r>), ClaimsError> {
    let (call, alternatives) = naming::locked(call, read)?;
    alternatives.batches.iter().try_for_each(|batch| admission::admit_batch(&call, batch.records()))?;
    Ok((call, alternatives))
}

/// Checks the mode again, which may have changed while the begin waited. Makes the commit durable whatever the cell's
/// `synchronous_commit` is, because the cell will rely on the lease.
fn confirm(call: &CellCall) -> Result<(), ClaimsError> {
    admission::admit_still(call, Need::Begin)?;
    durability::promise();
    Ok(())
}

/// Remembers the names of a lease that the transaction may meet again.
pub(super) fn remember(begun: &BegunLease, alternatives: &Alternatives) {
    if xact::is_in_block() {
        waiters::begun_here(begun.buckets(&alternatives.batches));
    }
}

/// Counts the answer to a begin, and has a refusal recorded.
pub(super) fn note(attempt: &BeginAttempt, lease: Option<Uuid>, answer: &Acquired, batches: &[Batch]) {
    let (call, cell_id) = (attempt.call, attempt.call.cell_id);
    counters::begin_took(cell_id, call.began.elapsed());
    match answer {
        Acquired::Lease(begun) if begun.is_new => {
            counters::begun(cell_id);
            counters::skipped(cell_id, begun.skipped.iter().map(|(_, reason)| *reason));
        }
        Acquired::Lease(_) => {}
        Acquired::Conflicts(conflicts) => {
            counters::refused(cell_id, conflict::decisive_reason(conflicts));
            audit::refused(call, attempt.attribution, lease, conflicts, batches);
        }
    }
}
