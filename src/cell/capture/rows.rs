//! The trigger that captures rows.

use std::rc::Rc;

use claims_model::capture::{Ends, Id, NamedBucket, READ_BYTES};
use claims_model::limits;
use claims_model::origin::{Declared, Origin};
use pgrx::PgTrigger;

use super::{automatic, log};
use crate::error::{CaptureError, ClaimsError, Excess, raise};
use crate::pg::compatibility;
use crate::pg::owner::{as_owner_of, restricted_as};
use crate::pg::spi::{self, Connection, Row};
use crate::pg::stored::BoundedText;
use crate::pg::trigger::{PlainValue, RowChange, RowVersion};
use crate::store::catalog;
use crate::store::cell::attributes::{self, CapturedAttribute, CapturedColumns, UnusableAttribute};
use crate::store::cell::keys::KeyKind;

/// Handles the AFTER ROW trigger of claimed tables, which sql/install/cell/capture.sql declares. As an AFTER trigger it sees the
/// row as other triggers have changed it.
///
/// It runs with the rights of the role that writes the row. It rarely executes a statement; then it takes its owner's rights for
/// that ([`with_rights`]). Setting up these rights and a search_path for every row would cost more than everything else it does.
pub fn capture_row(trigger: &PgTrigger) {
    if let Some(change) = RowChange::of(trigger) {
        raise(capture(&change));
    }
}

/// Runs `body` with SPI and the rights of the trigger function's owner. Returns `None` if the function does not exist any more:
/// then nobody needs its captured changes.
fn with_rights<T>(change: &RowChange, body: impl FnOnce(&Connection) -> T) -> Option<T> {
    as_owner_of(change.function(), || spi::connect(body))
}

fn capture(change: &RowChange) -> Result<(), ClaimsError> {
    let (old, new) = (change.before(), change.after());
    let Some(version) = new.or(old) else { return Ok(()) };
    if log::is_skipped() {
        return Ok(());
    }
    let Some(captured) = captured_columns(change, version)? else { return Ok(()) };
    if let (Some(old), Some(new)) = (old, new)
        && !captured.has_conditions
        && captured.attributes.iter().flat_map(|attribute| &attribute.columns).all(|(_, at)| old.has_same(new, *at))
    {
        return Ok(());
    }
    let before = old.map_or_else(Vec::new, |old| calls_of(change, &captured, old));
    let after = new.map_or_else(Vec::new, |new| calls_of(change, &captured, new));
    if let Some((column, excess)) = new_excess(&captured, (old, &before), (new, &after)) {
        return Err(CaptureError::TooLong { table: change.table_name(), column, excess }.into());
    }
    if let Some([one, other]) = new_double(&captured, &before, &after) {
        let (table, column) = (change.table_name(), one.column_name.clone());
        let declarations = [one, other].map(|declared| declared.name.clone());
        return Err(CaptureError::SeveralHold { table, column, declarations }.into());
    }
    // A row that could have no claim has none to give up.
    let claims = |calls: Vec<Call>| calls.into_iter().filter_map(|call| call.ok().flatten()).collect::<Vec<_>>();
    let (before, after) = (claims(before), claims(after));
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

/// Returns the first column of the new row with a text that is too long for a claim. Ignores a text that the old row had, too:
/// that row has no claim, and a save that does not change the text must not fail.
fn new_excess(
    captured: &CapturedColumns,
    (old, before): (Option<RowVersion>, &[Call]),
    (new, after): (Option<RowVersion>, &[Call]),
) -> Option<(String, Excess)> {
    captured.attributes.iter().zip(after).enumerate().find_map(|(at, (attribute, call))| {
        let unfit = call.as_ref().err()?;
        let (name, number) = &attribute.columns[unfit.column];
        let had = before.get(at).and_then(|call| call.as_ref().err()).is_some_and(|had| had.column == unfit.column);
        let is_same = had && matches!((old, new), (Some(old), Some(new)) if old.holds_same(new, *number));
        (!is_same).then(|| (name.clone(), unfit.excess.clone()))
    })
}

/// Returns two declarations of one column that both hold for the new row. Ignores those that held for the old row in the same way:
/// a save that does not change that must not fail.
fn new_double<'c>(captured: &'c CapturedColumns, before: &[Call], after: &[Call]) -> Option<[&'c Declared; 2]> {
    let holds = |at: &usize| matches!(after.get(*at), Some(Ok(Some(_))));
    let held_same = |at: usize| match (before.get(at), after.get(at)) {
        (Some(Ok(Some(before))), Some(Ok(Some(after)))) => before == after,
        _ => false,
    };
    let attributes = &captured.attributes;
    // The declarations of one column are adjacent.
    let column_of = |at: usize| attributes[at].columns[0].1;
    let holding: Vec<usize> = (0..attributes.len()).filter(holds).collect();
    let doubles = holding.windows(2).filter_map(|pair| <[usize; 2]>::try_from(pair).ok());
    let new = |pair: &[usize; 2]| column_of(pair[0]) == column_of(pair[1]) && !pair.iter().all(|at| held_same(*at));
    doubles.into_iter().find(new).map(|pair| pair.map(|at| &*attributes[at].declared))
}

fn captured_columns(change: &RowChange, version: RowVersion) -> Result<Option<Rc<CapturedColumns>>, ClaimsError> {
    if let Some(known) = attributes::captured_if_cached(change.table()).filter(|_| compatibility::is_checked()) {
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

/// The claim that an attribute makes of one version of a row, if any. The error says why there can be no such claim.
type Call = Result<Option<(NamedBucket, Ends)>, Unfit>;

/// A text that is too long for a claim.
struct Unfit {
    /// Index of its column among the attribute's columns.
    column: usize,
    excess: Excess,
}

/// Value, subject id and source id of a claim, in one version of a row.
struct Values {
    value: Option<BoundedText>,
    ids: [Option<HeldId>; 2],
}

/// An id of a subject or a source, as a row has it.
enum HeldId {
    Number(i64),
    Text(BoundedText),
}

/// Returns the claim of each attribute for one version of a row.
fn calls_of(change: &RowChange, captured: &CapturedColumns, version: RowVersion) -> Vec<Call> {
    let evaluate = |connection: &Connection| evaluated(connection, captured, version);
    let values = held(captured, version).or_else(|| with_rights(change, evaluate).flatten());
    let Some(catalog) = catalog::current_if_cached().or_else(|| with_rights(change, catalog::current)) else {
        return Vec::new();
    };
    let call = |(attribute, values): (&CapturedAttribute, Values)| {
        let Values { value: Some(value), ids: [subject, source] } = values else { return Ok(None) };
        let name = match value {
            BoundedText::Text(name) => name,
            BoundedText::TooLong { bytes } => return Err(Unfit { column: 0, excess: Excess::UnreadName { bytes } }),
        };
        let profile = catalog.types.profile_of(&attribute.bucket_type);
        let (bucket, display) = NamedBucket::named(attribute.bucket_type.clone(), profile, name)
            .map_err(|problem| Unfit { column: 0, excess: Excess::Name(problem) })?;
        let (subject_id, source_id) = (fit(subject, 1)?, fit(source, 2)?);
        let (subject_type, source_type) = (attribute.subject_type.clone(), attribute.source_type.clone());
        let origin = Origin(Some(attribute.declared.clone()));
        Ok(Some((bucket, Ends { subject_type, subject_id, source_type, source_id, display, origin })))
    };
    captured.attributes.iter().zip(values.into_iter().flatten()).map(call).collect()
}

/// Returns the id that a column holds, unless it is too long.
fn fit(id: Option<HeldId>, column: usize) -> Result<Option<Id>, Unfit> {
    match id {
        None => Ok(None),
        Some(HeldId::Number(number)) => Ok(Some(Id::Number(number))),
        Some(HeldId::Text(BoundedText::Text(id))) if !limits::is_longer_than(&id, limits::ID_CHARS) => {
            Ok(Some(Id::Text(id)))
        }
        Some(HeldId::Text(_)) => Err(Unfit { column, excess: Excess::Id }),
    }
}

/// Reads the values from the row without evaluating a statement, if no column has a condition and all types are plain.
fn held(captured: &CapturedColumns, version: RowVersion) -> Option<Vec<Values>> {
    if captured.has_conditions {
        return None;
    }
    let id = |column, kind| match (version.plain_value(column, READ_BYTES), kind) {
        (PlainValue::Null, _) => Some(None),
        (PlainValue::Number(number), KeyKind::Integer) => Some(Some(HeldId::Number(number))),
        (PlainValue::Text(text), KeyKind::Text) => Some(Some(HeldId::Text(text))),
        _ => None,
    };
    let read = |attribute: &CapturedAttribute| {
        let [(_, value), (_, subject), (_, source)] = &attribute.columns;
        let value = match version.plain_value(*value, READ_BYTES) {
            PlainValue::Null => None,
            PlainValue::Number(number) => Some(BoundedText::Text(number.to_string())),
            PlainValue::Text(text) => Some(text),
            PlainValue::Other => return None,
        };
        Some(Values { value, ids: [id(*subject, attribute.subject_key)?, id(*source, attribute.source_key)?] })
    };
    captured.attributes.iter().map(read).collect()
}

/// Evaluates conditions and casts. Large columns are read only if a condition uses them.
fn evaluated(connection: &Connection, captured: &CapturedColumns, version: RowVersion) -> Option<Vec<Values>> {
    let statement = captured.statement.as_ref()?;
    restricted_as(captured.owner, || {
        statement.run(connection, [version.value_as_stored()]).first(|row| {
            let columns = (0..).step_by(3).zip(&captured.attributes);
            let read = |(at, attribute): (i32, &CapturedAttribute)| Values {
                value: row.get_bounded(at + 1, READ_BYTES),
                ids: [key(&row, at + 2, attribute.subject_key), key(&row, at + 3, attribute.source_key)],
            };
            columns.map(read).collect::<Vec<_>>()
        })
    })
}

/// Returns a key that the statement has selected.
fn key(row: &Row, column: i32, kind: KeyKind) -> Option<HeldId> {
    match kind {
        KeyKind::Integer => row.get(column).map(HeldId::Number),
        KeyKind::Uuid | KeyKind::Text => row.get_bounded(column, READ_BYTES).map(HeldId::Text),
    }
}
