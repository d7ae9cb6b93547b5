//! The trigger that captures rows.

use std::num::NonZeroUsize;

use claims_model::capture::{Bucket, Ends, Id};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use super::{automatic, log};
use crate::error::{CaptureError, ClaimsError, raise};
use crate::pg::owner::restricted_as;
use crate::pg::spi::{self, Connection, Row};
use crate::pg::trigger::{Held, RowChange, RowVersion};
use crate::store::cell::attributes::{self, Captured, Unusable};
use crate::store::cell::keys::Kind;

/// AFTER ROW trigger of claimed tables; declared in sql/install/cell/capture.sql. Being the last to see a row, it sees what
/// other triggers have made of it.
#[pg_trigger(sql = false)]
fn capture_row<'a>(trigger: &'a PgTrigger<'a>) -> Result<Option<PgHeapTuple<'a, AllocatedByPostgres>>, ErrorReport> {
    if let Some(change) = RowChange::of(trigger) {
        raise(spi::connect(|connection| capture(connection, &change)));
    }
    Ok(None)
}

fn capture(connection: &Connection, change: &RowChange) -> Result<(), ClaimsError> {
    let (old, new) = (change.before(), change.after());
    let Some(version) = new.or(old) else { return Ok(()) };
    let captured =
        attributes::captured(connection, change.table(), version.row_type()).map_err(|unusable| match unusable {
            Unusable::Missing { table, attribute } => CaptureError::NoAttribute { table, attribute },
            Unusable::NoFixedText { table, attribute, type_name } => {
                CaptureError::NoFixedText { table, attribute, type_name }
            }
            Unusable::ConditionLost { table, error } => {
                CaptureError::ConditionLost { table, code: error.code(), message: error.message().to_owned() }
            }
        })?;
    if let (Some(old), Some(new), Some(columns)) = (old, new, &captured.columns)
        && columns.iter().flatten().all(|column| old.has_same(new, *column))
    {
        return Ok(());
    }
    let before = old.map_or_else(Vec::new, |old| claims_of(connection, &captured, old));
    let after = new.map_or_else(Vec::new, |new| claims_of(connection, &captured, new));
    if before == after {
        return Ok(());
    }
    for (bucket, ends) in before {
        log::record(bucket, ends, -1);
    }
    for (bucket, ends) in after {
        log::record(bucket, ends, 1);
    }
    automatic::see_to_sending(connection);
    Ok(())
}

/// A claim's value, and the ids of its subject and its source, as one version of a row has them.
type Values = (Option<String>, Option<Id>, Option<Id>);

/// The claims that one version of a row calls for.
fn claims_of(connection: &Connection, captured: &Captured, version: RowVersion) -> Vec<(Bucket, Ends)> {
    let values = held(captured, version).or_else(|| evaluated(connection, captured, version));
    let claim = |(attribute, (value, subject_id, source_id)): (&attributes::Attribute, Values)| {
        let bucket = Bucket { bucket_type: attribute.bucket_type.clone(), value: value? };
        let (subject_type, source_type) = (attribute.subject_type.clone(), attribute.source_type.clone());
        Some((bucket, Ends { subject_type, subject_id, source_type, source_id }))
    };
    captured.attributes.iter().zip(values.into_iter().flatten()).filter_map(claim).collect()
}

/// Where there is no condition and the columns are of the usual types, nothing needs to be evaluated.
fn held(captured: &Captured, version: RowVersion) -> Option<Vec<Values>> {
    let id = |column, kind| match (version.held(column), kind) {
        (Held::Null, _) => Some(None),
        (Held::Number(number), Kind::Integer) => Some(Some(Id::Number(number))),
        (Held::Text(text), Kind::Text) => Some(Some(Id::Text(text))),
        _ => None,
    };
    let read = |([value, subject, source], attribute): (&[NonZeroUsize; 3], &attributes::Attribute)| {
        let value = match version.held(*value) {
            Held::Null => None,
            Held::Number(number) => Some(number.to_string()),
            Held::Text(text) => Some(text),
            Held::Other => return None,
        };
        Some((value, id(*subject, attribute.subject_key)?, id(*source, attribute.source_key)?))
    };
    captured.columns.as_ref()?.iter().zip(&captured.attributes).map(read).collect()
}

fn evaluated(connection: &Connection, captured: &Captured, version: RowVersion) -> Option<Vec<Values>> {
    let statement = captured.statement.as_ref()?;
    restricted_as(captured.owner, || {
        statement.run(connection, [version.value()]).first(|row| {
            let columns = (0..).step_by(3).zip(&captured.attributes);
            let read = |(at, attribute): (i32, &attributes::Attribute)| {
                (row.get(at + 1), key(&row, at + 2, attribute.subject_key), key(&row, at + 3, attribute.source_key))
            };
            columns.map(read).collect::<Vec<_>>()
        })
    })
}

/// A key, as the statement hands it on.
fn key(row: &Row, column: i32, kind: Kind) -> Option<Id> {
    match kind {
        Kind::Integer => row.get(column).map(Id::Number),
        Kind::Uuid | Kind::Text => row.get(column).map(Id::Text),
    }
}
