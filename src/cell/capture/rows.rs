//! The trigger that captures rows.

use claims_model::capture::{Bucket, Ends, Id};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use super::{automatic, log};
use crate::error::{CaptureError, ClaimsError, raise};
use crate::pg::owner::restricted_as;
use crate::pg::spi::{self, Connection, Row};
use crate::pg::trigger::{RowChange, RowVersion};
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
        && columns.iter().all(|column| old.has_same(new, *column))
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

/// The claims that one version of a row calls for.
fn claims_of(connection: &Connection, captured: &Captured, version: RowVersion) -> Vec<(Bucket, Ends)> {
    let Some(statement) = &captured.statement else { return Vec::new() };
    let values = restricted_as(captured.owner, || {
        statement.run(connection, [version.value()]).first(|row| {
            let columns = (0..).step_by(3).zip(&captured.attributes);
            let read = |(at, attribute): (i32, &attributes::Attribute)| {
                (row.get(at + 1), id(&row, at + 2, attribute.subject_key), id(&row, at + 3, attribute.source_key))
            };
            columns.map(read).collect::<Vec<_>>()
        })
    });
    let claim = |(attribute, (value, subject_id, source_id)): (&attributes::Attribute, (Option<String>, _, _))| {
        let bucket = Bucket { bucket_type: attribute.bucket_type.clone(), value: value? };
        let (subject_type, source_type) = (attribute.subject_type.clone(), attribute.source_type.clone());
        Some((bucket, Ends { subject_type, subject_id, source_type, source_id }))
    };
    captured.attributes.iter().zip(values.into_iter().flatten()).filter_map(claim).collect()
}

/// A key, as the statement hands it on.
fn id(row: &Row, column: i32, kind: Kind) -> Option<Id> {
    match kind {
        Kind::Integer => row.get(column).map(Id::Number),
        Kind::Uuid | Kind::Text => row.get(column).map(Id::Text),
    }
}
