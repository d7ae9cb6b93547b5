//! The trigger that captures rows.

use std::num::NonZeroUsize;
use std::rc::Rc;

use claims_model::origin::Declared;
use pgrx::PgTrigger;

use super::errors::{CaptureError, Excess};
use super::wanted_claims::{WantedClaim, wanted_claims, with_rights};
use super::{automatic, log, observed_rows, pins};
use crate::cell::claimed::attributes::{self, Captured, CapturedColumns, UnusableAttribute};
use crate::kernel::error::{ClaimsError, raise};
use pg::compatibility;
use pg::spi::Connection;
use pg::trigger::{RowChange, RowVersion};

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

fn capture(change: &RowChange) -> Result<(), ClaimsError> {
    let (old, new) = (change.before(), change.after());
    let Some(version) = new.or(old) else { return Ok(()) };
    if log::is_skipped() {
        return Ok(());
    }
    let Some(captured) = captured_columns(change, version)? else { return Ok(()) };
    let held = capture_enforced(change, &captured.enforced, old, new)?;
    if !captured.observed.is_empty() || !captured.unusable.is_empty() {
        observed_rows::capture(change, &captured, old, new, &held);
    }
    Ok(())
}

/// Captures a change under the declarations that are enforced for all names. Returns the columns that the new row claims, if the
/// claims have changed.
fn capture_enforced(
    change: &RowChange,
    captured: &CapturedColumns,
    old: Option<RowVersion>,
    new: Option<RowVersion>,
) -> Result<Vec<NonZeroUsize>, ClaimsError> {
    if captured.attributes.is_empty() {
        return Ok(Vec::new());
    }
    if let (Some(old), Some(new)) = (old, new)
        && !captured.has_conditions
        && captured.attributes.iter().flat_map(|attribute| &attribute.columns).all(|(_, at)| old.has_same(new, *at))
    {
        return Ok(Vec::new());
    }
    let before = old.map_or_else(Vec::new, |old| wanted_claims(change, captured, old));
    let after = new.map_or_else(Vec::new, |new| wanted_claims(change, captured, new));
    if let Some((column, excess)) = new_excess(captured, (old, &before), (new, &after)) {
        return Err(CaptureError::TooLong { table: change.table_name(), column, excess }.into());
    }
    if let Some([one, other]) = new_double(captured, &before, &after) {
        let (table, column) = (change.table_name(), one.column_name.clone());
        let declarations = [one, other].map(|declared| declared.name.clone());
        return Err(CaptureError::SeveralHold { table, column, declarations }.into());
    }
    let columns = captured.attributes.iter().zip(&after).filter(|(_, call)| matches!(call, Ok(Some(_))));
    let held = columns.map(|(attribute, _)| attribute.columns[0].1).collect();
    // A row that could have no claim has none to give up.
    let claims = |calls: Vec<WantedClaim>| calls.into_iter().filter_map(|call| call.ok().flatten()).collect::<Vec<_>>();
    let (before, after) = (claims(before), claims(after));
    if before == after {
        return Ok(held);
    }
    for (bucket, ends) in before {
        log::record(bucket, ends, -1, || automatic::routes_of(change));
    }
    for (bucket, ends) in after {
        log::record(bucket, ends, 1, || automatic::routes_of(change));
    }
    automatic::see_to_sending(change);
    Ok(held)
}

/// Returns the first column of the new row with a text that is too long for a claim. Ignores a text that the old row had, too:
/// that row has no claim, and a save that does not change the text must not fail.
fn new_excess(
    captured: &CapturedColumns,
    (old, before): (Option<RowVersion>, &[WantedClaim]),
    (new, after): (Option<RowVersion>, &[WantedClaim]),
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
fn new_double<'c>(
    captured: &'c CapturedColumns,
    before: &[WantedClaim],
    after: &[WantedClaim],
) -> Option<[&'c Declared; 2]> {
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

fn captured_columns(change: &RowChange, version: RowVersion) -> Result<Option<Rc<Captured>>, ClaimsError> {
    let table = change.table();
    if let Some(known) = attributes::captured_if_cached(table).filter(|_| compatibility::is_checked()) {
        pins::pin(table, &known);
        return Ok(Some(known));
    }
    let look_up =
        |connection: &Connection| attributes::captured(connection, table, version.row_type(), pins::enforcement);
    let error = |unusable| match unusable {
        UnusableAttribute::Missing { table, attribute } => CaptureError::NoAttribute { table, attribute },
        UnusableAttribute::NoFixedText { table, attribute, type_name } => {
            CaptureError::NoFixedText { table, attribute, type_name }
        }
        UnusableAttribute::ConditionLost { table, error } => {
            CaptureError::ConditionLost { table, code: error.code(), message: error.message().to_owned() }
        }
    };
    let captured = with_rights(change, look_up).transpose().map_err(error)?;
    Ok(captured.inspect(|captured| pins::pin(table, captured)))
}
