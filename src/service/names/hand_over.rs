//! `hand_over`: gives a name to a cell, wherever it was before.

use std::cell::Cell;
use std::time::Instant;

use claims_model::limits::ID_CHARS;
use claims_model::lookalike::{NewSkeleton, skeletons};
use claims_model::mode::Need;
use claims_model::types::Kind;
use claims_model::{BadInput, Claim, NOBODY, Reference, Types, id};

use super::errors::NamesError;
use super::reserve::{canonical, locked_type};
use super::statements;
use crate::kernel::admin_action::AdminAction;
use crate::kernel::arguments;
use crate::kernel::attribution;
use crate::kernel::call::{CellCall, answer};
use crate::kernel::error::{AccessError, ClaimsError, TablesError};
use crate::kernel::settings;
use crate::service::audit::AuditedName;
use crate::service::claims::{
    ACTIVE, CLAIM_TABLES, CONTENTION_SQLSTATES, KEPT_BACK, Owner, SKELETON_TABLES, StoredOwner,
};
use crate::service::feed::{self, Change, ChangeSet};
use crate::service::transfer::errors::TransferError;
use crate::service::transfer::transfers;
use crate::service::{ATTEMPTS, admission, audit, durability, lock_timeout, waiters};
use pg::clock::Moment;
use pg::prelude::*;
use pg::settings::LockWaits;
use pg::subtransaction::{Undone, subtransaction};
use pgrx::PgSqlErrorCode as Code;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn hand_over(
    bucket_type: Option<String>,
    bucket_value: Option<String>,
    to_cell: Option<i64>,
    subject_type: Option<String>,
    subject_id: Option<String>,
    source_type: Option<String>,
    source_id: Option<String>,
    reason: Option<String>,
) -> Result<&'static str, ErrorReport> {
    answer(|| {
        let action = AdminAction::begin("hand_over", reason)?;
        arguments::require!(bucket_type, bucket_value, to_cell, subject_type, source_type);
        let subject_id = arguments::text(subject_id, "subject_id", ID_CHARS)?;
        let source_id = arguments::text(source_id, "source_id", ID_CHARS)?;
        let named_arguments = [
            ("bucket_type", &bucket_type),
            ("bucket_value", &bucket_value),
            ("subject_type", &subject_type),
            ("subject_id", &subject_id),
            ("source_type", &source_type),
            ("source_id", &source_id),
        ];
        let action = action.with("to_cell", to_cell);
        let action =
            named_arguments.into_iter().fold(action, |action, (name, value)| action.with(name, value.as_str()));
        action.perform(|call| {
            let (catalog, number) = locked_type(call.connection, &bucket_type)?;
            let name = canonical(&catalog.types, number, &bucket_value);
            let name = name.map_err(|problem| BadInput::new("bucket_value", problem))?;
            let reference = |kind, argument, type_name: &str, id: String| {
                let type_id = type_id(&catalog.types, kind, argument, type_name)?;
                Ok::<_, ClaimsError>(Reference { type_id, id: id.into() })
            };
            let claim = Claim {
                bucket: name.bucket,
                subject: reference(Kind::Subject, "subject_type", &subject_type, subject_id)?,
                source: reference(Kind::Source, "source_type", &source_type, source_id)?,
                display: name.display.map(Into::into),
            };
            let call = &call.of_cell(to_cell).with_catalog(catalog);
            if !call.catalog.cells.contains_key(&to_cell) {
                return Err(AccessError::UnknownCell { cell_id: to_cell }.into());
            }
            admission::admit(call, Need::Settle)?;
            durability::promise();
            Ok(give(call, &claim)?.name())
        })
    })
}

fn type_id(types: &Types, kind: Kind, argument: &str, name: &str) -> Result<i32, ClaimsError> {
    Ok(id::type_from_text(name, kind, types).map_err(|problem| BadInput::new(argument, problem))?)
}

/// Where a name was.
enum Former {
    Cell(i64, StoredOwner),
    Reserved,
    Quarantined,
    Free,
}

impl Former {
    fn name(&self) -> &'static str {
        match self {
            Former::Cell(..) => "cell",
            Former::Reserved => "reserved",
            Former::Quarantined => "quarantined",
            Former::Free => "free",
        }
    }

    /// Returns the cell that had the name.
    fn cell_id(&self) -> Option<i64> {
        if let Former::Cell(cell_id, _) = self { Some(*cell_id) } else { None }
    }
}

/// Why an attempt has changed nothing.
enum Undoing {
    /// A lease or a transfer holds the name.
    Held,
    /// The cell moves with all that it has.
    Moves(ClaimsError),
    /// Another name looks like it.
    Alike,
}

/// Gives the name to the cell of the call, and tells those who follow changes.
fn give(call: &CellCall, claim: &Claim) -> Result<Former, ClaimsError> {
    if !transfers::writes_announced() {
        return Err(TablesError::Locked.into());
    }
    let deadline = Instant::now() + settings::wait_timeout();
    for attempt in 0..ATTEMPTS {
        let _waits = LockWaits::until(deadline.max(Instant::now() + lock_timeout(attempt)));
        let around = call.tables.surroundings();
        let has_name = Cell::new(false);
        let take = || call.bounded_within(around, || take(call, claim, &has_name));
        let former = match subtransaction(&CONTENTION_SQLSTATES, take) {
            Ok(former) => former,
            Err(Undone::ByBody(Undoing::Held)) => break,
            Err(Undone::ByBody(Undoing::Moves(error))) => return Err(error),
            Err(Undone::ByBody(Undoing::Alike)) => return Err(NamesError::Alike.into()),
            // The skeleton of another name.
            Err(Undone::ByError(Code::ERRCODE_UNIQUE_VIOLATION)) if has_name.get() => {
                return Err(NamesError::Alike.into());
            }
            Err(Undone::ByError(_)) => continue,
        };
        let (change, old) = match &former {
            Former::Cell(cell_id, owner) => (Change::Transfer(*cell_id, call.cell_id), Some(owner.owner())),
            Former::Reserved | Former::Quarantined | Former::Free => (Change::HandOver(call.cell_id), None),
        };
        let (bucket, new) = (&claim.bucket, Some(Owner { subject: &claim.subject, source: &claim.source }));
        let set = ChangeSet { change, cause: None, buckets: vec![bucket], attribution: attribution::of_session() };
        feed::tell(call, &[set], Moment::now());
        audit::changed(call, former.cell_id(), "handed_over", &[AuditedName { op: "transfer", bucket, old, new }]);
        waiters::settled(call, std::iter::once(&claim.bucket), true);
        return Ok(former);
    }
    Err(NamesError::Held.into())
}

/// Takes the name from where it is. The lock of its row keeps everybody else away; a name without a row has its key. `has_name` is set when only
/// the skeleton is missing.
fn take(call: &CellCall, claim: &Claim, has_name: &Cell<bool>) -> Result<Former, Undoing> {
    let (connection, now) = (call.connection, Moment::now());
    let found = statements::locked(connection, &claim.bucket);
    let former = match &found {
        None => Former::Free,
        Some(row) if row.status == ACTIVE && row.creator_id == NOBODY => Former::Reserved,
        Some(row) if row.status == ACTIVE => Former::Cell(row.creator_id, row.owner()),
        Some(row) if row.status == KEPT_BACK => match row.available_at {
            Some(end) if end > now => Former::Quarantined,
            _ => Former::Free,
        },
        Some(_) => return Err(Undoing::Held),
    };
    for cell_id in former.cell_id().into_iter().chain([call.cell_id]) {
        if let Some(transfer) = transfers::of_whole_cell(connection, cell_id) {
            return Err(Undoing::Moves(TransferError::CellMoves { transfer, cell_id }.into()));
        }
    }
    let given = match &found {
        Some(row) => statements::give_to(connection, call.cell_id, claim, row),
        None => CLAIM_TABLES.of(call).add(connection, call.cell_id, &[claim], call.tables.surroundings()),
    };
    if given != 1 {
        return Err(Undoing::Held);
    }
    if let Former::Reserved = former {
        statements::end_reservation(connection, &claim.bucket);
    }
    has_name.set(true);
    // The claim of a cell has its skeleton.
    let is_new = former.cell_id().is_none();
    let looks = skeletons(std::iter::once(&claim.bucket).filter(|_| is_new), &call.catalog.types);
    let new = |(skeleton, bucket)| NewSkeleton { skeleton, bucket, predecessor: None };
    let looks: Vec<_> = looks.into_iter().map(new).collect();
    if looks.is_empty() || SKELETON_TABLES.of(call).take_skeletons(connection, &looks, true) == looks.len() {
        Ok(former)
    } else {
        Err(Undoing::Alike)
    }
}
