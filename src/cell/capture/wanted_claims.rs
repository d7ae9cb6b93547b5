//! The claims that a version of a row calls for, by the declarations of its table.

use claims_model::capture::{Ends, Id, NamedBucket, READ_BYTES};
use claims_model::limits;
use claims_model::origin::Origin;

use crate::cell::capture::errors::Excess;
use crate::cell::claimed::attributes::{CapturedAttribute, CapturedColumns};
use crate::cell::claimed::keys::KeyKind;
use crate::kernel::catalog;
use pg::owner::{as_owner_of, restricted_as};
use pg::settings::with_fixed_text;
use pg::spi::{self, Connection, Row};
use pg::stored::BoundedText;
use pg::trigger::{PlainValue, RowChange, RowVersion};

/// Runs `body` with SPI and the rights of the trigger function's owner. Returns `None` if the function does not exist any more:
/// then nobody needs its captured changes.
pub fn with_rights<T>(change: &RowChange, body: impl FnOnce(&Connection) -> T) -> Option<T> {
    as_owner_of(change.function(), || spi::connect(body))
}

/// The claim that an attribute makes of one version of a row, if any. The error says why there can be no such claim.
pub type WantedClaim = Result<Option<(NamedBucket, Ends)>, Unfit>;

/// A text that is too long for a claim.
pub struct Unfit {
    /// Index of its column among the attribute's columns.
    pub column: usize,
    pub excess: Excess,
}

/// Value, subject id and source id of a claim, in one version of a row.
pub struct ClaimValues {
    value: Option<BoundedText>,
    ids: [Option<HeldId>; 2],
}

/// An id of a subject or a source, as a row has it.
enum HeldId {
    Number(i64),
    Text(BoundedText),
}

/// Returns the claim of each attribute for one version of a row.
pub fn wanted_claims(change: &RowChange, captured: &CapturedColumns, version: RowVersion) -> Vec<WantedClaim> {
    let evaluate = |connection: &Connection| evaluated(connection, captured, version);
    let values = held(captured, version).or_else(|| with_rights(change, evaluate).flatten());
    wanted_claims_from(change, captured, values)
}

/// Returns the claim of each attribute for the values of one version of a row.
pub fn wanted_claims_from(
    change: &RowChange,
    captured: &CapturedColumns,
    values: Option<Vec<ClaimValues>>,
) -> Vec<WantedClaim> {
    let Some(catalog) = catalog::current_if_cached().or_else(|| with_rights(change, catalog::current)) else {
        return Vec::new();
    };
    let call = |(attribute, values): (&CapturedAttribute, ClaimValues)| {
        let ClaimValues { value: Some(value), ids: [subject, source] } = values else { return Ok(None) };
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
pub fn held(captured: &CapturedColumns, version: RowVersion) -> Option<Vec<ClaimValues>> {
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
        Some(ClaimValues { value, ids: [id(*subject, attribute.subject_key)?, id(*source, attribute.source_key)?] })
    };
    captured.attributes.iter().map(read).collect()
}

/// Evaluates conditions and casts. Large columns are read only if a condition uses them.
fn evaluated(connection: &Connection, captured: &CapturedColumns, version: RowVersion) -> Option<Vec<ClaimValues>> {
    let statement = captured.statement.as_ref()?;
    let read = || {
        statement.run(connection, [version.value_as_stored()]).first(|row| {
            let columns = (0..).step_by(3).zip(&captured.attributes);
            let read = |(at, attribute): (i32, &CapturedAttribute)| ClaimValues {
                value: row.get_bounded(at + 1, READ_BYTES),
                ids: [key(&row, at + 2, attribute.subject_key), key(&row, at + 3, attribute.source_key)],
            };
            columns.map(read).collect::<Vec<_>>()
        })
    };
    restricted_as(captured.owner, || if captured.depends_on_settings { with_fixed_text(read) } else { read() })
}

/// Returns a key that the statement has selected.
fn key(row: &Row, column: i32, kind: KeyKind) -> Option<HeldId> {
    match kind {
        KeyKind::Integer => row.get(column).map(HeldId::Number),
        KeyKind::Uuid | KeyKind::Text => row.get_bounded(column, READ_BYTES).map(HeldId::Text),
    }
}
