//! The trigger that captures rows.

use std::num::NonZeroUsize;
use std::rc::Rc;

use claims_model::capture::{Ends, Id, NamedBucket};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use super::{automatic, log};
use crate::error::{CaptureError, ClaimsError, raise};
use crate::pg::gate;
use crate::pg::owner::{as_owner_of, restricted_as};
use crate::pg::spi::{self, Connection, Row};
use crate::pg::trigger::{PlainValue, RowChange, RowVersion};
use crate::store::catalog;
use crate::store::cell::attributes::{self, CapturedColumns, UnusableAttribute};
use crate::store::cell::keys::KeyKind;

/// AFTER ROW trigger of claimed tables; declared in sql/install/cell/capture.sql. Being the last to see a row, it sees what
/// other triggers have made of it.
///
/// It runs with the rights of whoever writes the row. Mostly it executes no statement; where it does, it takes its owner's rights
/// for that ([`with_rights`]): to have them, and a search_path, set up for every row costs more than all the rest.
#[pg_trigger(sql = false)]
fn capture_row<'a>(trigger: &'a PgTrigger<'a>) -> Result<Option<PgHeapTuple<'a, AllocatedByPostgres>>, ErrorReport> {
    if let Some(change) = RowChange::of(trigger) {
        raise(capture(&change));
    }
    Ok(None)
}

/// Runs `body` with SPI and the rights of the trigger function's owner. The function cannot be gone while it runs; if it is, then
/// nobody asks for what it captures.
fn with_rights<T>(change: &RowChange, body: impl FnOnce(&Connection) -> T) -> Option<T> {
    as_owner_of(change.function(), || spi::connect(body))
}

fn capture(change: &RowChange) -> Result<(), ClaimsError> {
    let (old, new) = (change.before(), change.after());
    let Some(version) = new.or(old) else { return Ok(()) };
    let Some(captured) = captured_columns(change, version)? else { return Ok(()) };
    if let (Some(old), Some(new), Some(columns)) = (old, new, &captured.columns)
        && columns.iter().flatten().all(|column| old.has_same(new, *column))
    {
        return Ok(());
    }
    let before = old.map_or_else(Vec::new, |old| claims_of(change, &captured, old));
    let after = new.map_or_else(Vec::new, |new| claims_of(change, &captured, new));
    if before == after {
        return Ok(());
    }
    for (bucket, ends) in before {
        log::record(bucket, ends, -1);
    }
    for (bucket, ends) in after {
        log::record(bucket, ends, 1);
    }
    automatic::see_to_sending(change);
    Ok(())
}

/// What is claimed of the rows of a table.
fn captured_columns(change: &RowChange, version: RowVersion) -> Result<Option<Rc<CapturedColumns>>, ClaimsError> {
    if let Some(known) = attributes::captured_as_known(change.table()).filter(|_| gate::is_open()) {
        return Ok(Some(known));
    }
    let look_up = |connection: &Connection| attributes::captured(connection, change.table(), version.row_type());
    let error = |unusable| match unusable {
        UnusableAttribute::Missing { table, attribute } => CaptureError::NoAttribute { table, attribute },
        UnusableAttribute::NoFixedText { table, attribute, type_name } => {
            CaptureError::NoFixedText { table, attribute, type_name }
        }
        UnusableAttribute::ConditionLost { table, error } => {
            CaptureError::ConditionLost { table, code: error.code(), message: error.message().to_owned() }
        }
    };
    Ok(with_rights(change, look_up).transpose().map_err(error)?)
}

/// A claim's value, and the ids of its subject and its source, as one version of a row has them.
type Values = (Option<String>, Option<Id>, Option<Id>);

/// The claims that one version of a row calls for.
fn claims_of(change: &RowChange, captured: &CapturedColumns, version: RowVersion) -> Vec<(NamedBucket, Ends)> {
    let evaluate = |connection: &Connection| evaluated(connection, captured, version);
    let values = held(captured, version).or_else(|| with_rights(change, evaluate).flatten());
    let Some(catalog) = catalog::current_as_known().or_else(|| with_rights(change, catalog::current)) else {
        return Vec::new();
    };
    let claim = |(attribute, (value, subject_id, source_id)): (&attributes::CapturedAttribute, Values)| {
        let profile = catalog.types.profile_of(&attribute.bucket_type);
        let (bucket, display) = NamedBucket::named(attribute.bucket_type.clone(), profile, value?);
        let (subject_type, source_type) = (attribute.subject_type.clone(), attribute.source_type.clone());
        Some((bucket, Ends { subject_type, subject_id, source_type, source_id, display }))
    };
    captured.attributes.iter().zip(values.into_iter().flatten()).filter_map(claim).collect()
}

/// Where there is no condition and the columns are of the usual types, nothing needs to be evaluated.
fn held(captured: &CapturedColumns, version: RowVersion) -> Option<Vec<Values>> {
    let id = |column, kind| match (version.held(column), kind) {
        (PlainValue::Null, _) => Some(None),
        (PlainValue::Number(number), KeyKind::Integer) => Some(Some(Id::Number(number))),
        (PlainValue::Text(text), KeyKind::Text) => Some(Some(Id::Text(text))),
        _ => None,
    };
    let read = |([value, subject, source], attribute): (&[NonZeroUsize; 3], &attributes::CapturedAttribute)| {
        let value = match version.held(*value) {
            PlainValue::Null => None,
            PlainValue::Number(number) => Some(number.to_string()),
            PlainValue::Text(text) => Some(text),
            PlainValue::Other => return None,
        };
        Some((value, id(*subject, attribute.subject_key)?, id(*source, attribute.source_key)?))
    };
    captured.columns.as_ref()?.iter().zip(&captured.attributes).map(read).collect()
}

fn evaluated(connection: &Connection, captured: &CapturedColumns, version: RowVersion) -> Option<Vec<Values>> {
    let statement = captured.statement.as_ref()?;
    restricted_as(captured.owner, || {
        statement.run(connection, [version.value()]).first(|row| {
            let columns = (0..).step_by(3).zip(&captured.attributes);
            let read = |(at, attribute): (i32, &attributes::CapturedAttribute)| {
                (row.get(at + 1), key(&row, at + 2, attribute.subject_key), key(&row, at + 3, attribute.source_key))
            };
            columns.map(read).collect::<Vec<_>>()
        })
    })
}

/// A key, as the statement hands it on.
fn key(row: &Row, column: i32, kind: KeyKind) -> Option<Id> {
    match kind {
        KeyKind::Integer => row.get(column).map(Id::Number),
        KeyKind::Uuid | KeyKind::Text => row.get(column).map(Id::Text),
    }
}
