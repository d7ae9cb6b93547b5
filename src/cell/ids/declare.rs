//! `use_id_space`: chooses the sequences that draw from ranges of ids.

use claims_model::limits::KIND_CHARS;
use claims_model::{BadInput, Problem};

use super::errors::IdsError;
use crate::cell::errors::CellError;
use crate::cell::id_sequences::{self as sequences, Sequence};
use crate::cell::wakeup;
use crate::kernel::error::ClaimsError;
use crate::kernel::{access, arguments};
use pg::name::Relation;
use pg::prelude::*;
use pg::spi::{self, Connection};

/// The largest low-water mark: half of the largest range.
pub const MAX_LOW_WATER: i64 = 500_000_000;

/// Chooses the id space of a sequence; with NULL, ends that. The sequence has no ids until it gets its first range.
#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn use_id_space(
    sequence: Option<Relation>,
    id_space: Option<String>,
    low_water: default!(Option<i64>, 100000),
) -> Result<(), ErrorReport> {
    Ok(spi::connect(|connection| declare(connection, sequence, id_space, low_water))?)
}

fn declare(
    connection: &Connection,
    sequence: Option<Relation>,
    id_space: Option<String>,
    low_water: Option<i64>,
) -> Result<(), ClaimsError> {
    let Relation(oid) = arguments::required(sequence, "sequence")?;
    let low_water = arguments::required(low_water, "low_water")?;
    let sequence = sequences::sequence(connection, oid).ok_or(IdsError::NoSuchSequence)?;
    access::own_or_administer(sequence.owner)?;
    let Some(id_space) = id_space else {
        return match sequences::forget(connection, oid) {
            true => Ok(()),
            false => Err(IdsError::NotInUse { name: sequence.name }.into()),
        };
    };
    let id_space = arguments::text(Some(id_space), "id_space", KIND_CHARS)?;
    if !(1..=MAX_LOW_WATER).contains(&low_water) {
        return Err(BadInput::new("low_water", Problem::OutOfRange { allowed: "1 to 500000000" }).into());
    }
    must_fit(&sequence)?;
    // A sequence that draws from the space as it should keeps its ranges.
    let draws = sequence.limits.is_some_and(|limits| {
        sequences::lock(connection, oid).and_then(|declared| declared.current).is_some_and(|range| limits.fit(range))
    });
    if draws && sequences::set_low_water(connection, oid, &id_space, low_water) {
        wakeup::has_work();
        return Ok(());
    }
    if !sequence.exhaust(connection, None) {
        return Err(CellError::SequenceBusy { name: sequence.name }.into());
    }
    sequences::forget(connection, oid);
    sequences::declare(connection, oid, &id_space, low_water);
    wakeup::has_work();
    Ok(())
}

/// Raises an error unless a relation is a sequence that can draw from ranges.
fn must_fit(sequence: &Sequence) -> Result<(), ClaimsError> {
    let name = sequence.name.clone();
    Err(match sequence.limits {
        None => IdsError::NotASequence { name },
        Some(_) if !sequence.is_permanent => IdsError::NotPermanent { name },
        Some(limits) if limits.increment < 1 => IdsError::Descends { name },
        Some(_) => return Ok(()),
    }
    .into())
}
