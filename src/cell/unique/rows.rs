//! The trigger that captures rows of tables with unique columns.

use std::rc::Rc;

use claims_model::capture::{Ends, NamedBucket};
use claims_model::origin::Origin;
use pgrx::PgTrigger;

use super::columns::{self, UniqueColumn, UniqueColumns};
use super::errors::UniqueError;
use crate::cell::capture::errors::Excess;
use crate::cell::capture::wanted_claims::with_rights;
use crate::cell::capture::{automatic, log, uniques};
use crate::kernel::catalog;
use crate::kernel::error::{ClaimsError, raise};
use pg::compatibility;
use pg::spi::Connection;
use pg::stored::BoundedText;
use pg::trigger::{RowChange, RowVersion};

/// A value that no claim can have.
#[derive(PartialEq)]
enum UnfitValue {
    Empty,
    TooLong(Excess),
}

/// A value of a row: its bucket and the ends of its claim.
type Claimed = Result<Option<(NamedBucket, Ends)>, UnfitValue>;

/// Handles the AFTER ROW trigger `claims_unique`, which sql/install/cell/unique.sql declares.
pub fn capture_row(trigger: &PgTrigger) {
    if let Some(change) = RowChange::of(trigger) {
        raise(capture(&change));
    }
}

fn capture(change: &RowChange) -> Result<(), ClaimsError> {
    let (old, new) = (change.before(), change.after());
    let Some(version) = new.or(old).filter(|_| !log::is_skipped()) else { return Ok(()) };
    let Some(unique) = columns_of(change, version)? else { return Ok(()) };
    if let (Some(old), Some(new)) = (old, new)
        && !unique.has_conditions()
        && unique.columns.iter().all(|column| old.has_same(new, column.number))
    {
        return Ok(());
    }
    let claims =
        |version: Option<RowVersion>| version.map_or_else(Vec::new, |version| claims(change, &unique, version));
    let (before, after) = (claims(old), claims(new));
    if before == after {
        return Ok(());
    }
    for (at, claim) in after.iter().enumerate() {
        if let Err(unfit) = claim
            && before.get(at) != Some(claim)
        {
            let declared = &unique.columns[at].declared;
            let (table, column) = (change.table_name(), declared.column_name.clone());
            return Err(match unfit {
                UnfitValue::Empty => UniqueError::EmptyText { table, column },
                UnfitValue::TooLong(excess) => UniqueError::TooLong { table, column, excess: excess.clone() },
            }
            .into());
        }
    }
    for (claims, by) in [(before, -1), (after, 1)] {
        for (bucket, ends) in claims.into_iter().filter_map(|claim| claim.ok().flatten()) {
            log::record(bucket, ends, by, || automatic::routes_of(change));
        }
    }
    automatic::see_to_sending(change);
    automatic::send_if_many(change)
}

fn columns_of(change: &RowChange, version: RowVersion) -> Result<Option<Rc<UniqueColumns>>, ClaimsError> {
    let table = change.table();
    if let Some(cached) = columns::if_cached(table).filter(|_| compatibility::is_checked()) {
        return Ok(Some(cached));
    }
    with_rights(change, |connection| columns::of(connection, table, version.row_type())).transpose()
}

/// Returns the claim of each column for one version of a row.
fn claims(change: &RowChange, unique: &UniqueColumns, version: RowVersion) -> Vec<Claimed> {
    let evaluate = |connection: &Connection| unique.evaluated(connection, version);
    let values = unique.stored(version).or_else(|| with_rights(change, evaluate).flatten());
    let values = values.unwrap_or_default().into_iter();
    unique.columns.iter().zip(values).map(|(column, value)| claim(change, column, value)).collect()
}

fn claim(change: &RowChange, column: &UniqueColumn, value: Option<BoundedText>) -> Claimed {
    let text = match value {
        None => return Ok(None),
        Some(BoundedText::Text(text)) if text.is_empty() => return Err(UnfitValue::Empty),
        Some(BoundedText::Text(text)) => text,
        Some(BoundedText::TooLong { bytes }) => return Err(UnfitValue::TooLong(Excess::UnreadName { bytes })),
    };
    let Some(catalog) = catalog::current_if_cached().or_else(|| with_rights(change, catalog::current)) else {
        return Ok(None);
    };
    let profile = catalog.types.profile_of(&column.name);
    let too_long = |problem| UnfitValue::TooLong(Excess::Name(problem));
    let (bucket, display) = NamedBucket::named(column.name.clone(), profile, text).map_err(too_long)?;
    let ends = uniques::ends_of(&column.name, column.generation);
    Ok(Some((bucket, Ends { display, origin: Origin(Some(column.declared.clone())), ..ends })))
}
