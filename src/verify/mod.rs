//! Verification: what a cell's own tables call for, compared with what it has claimed.
//!
//! At the service: `digest_records` and `verify_records`. In the cell: `digest_expected`, `expected_records`, and
//! `verify`, which walks over everything and calls the other two; `begin_verification` and `verify_share` divide that
//! among workers. docs/verification.md has the picture.

pub mod begin;
mod compare;
mod correct;
pub mod digest;
pub mod expected;
mod progress;
pub mod records;
mod remote;
mod rows;
pub mod share;
mod walk;
pub mod whole;

use claims_model::source_range::SourceRange;
use claims_model::types::Kind;
use claims_model::{BadInput, Types, id, limits};

use crate::error::ClaimsError;

/// Claims that one comparison may have, on either side.
const MAX_RECORDS: usize = 100_000;

/// The number and the name of the source type that an argument names.
fn source_type(text: &str, types: &Types) -> Result<(i32, String), ClaimsError> {
    let number =
        id::type_from_text(text, Kind::Source, types).map_err(|problem| BadInput::new("source_type", problem))?;
    Ok((number, types.source.name(number).unwrap_or(text).to_owned()))
}

/// The range that two arguments bound; NULL is no bound.
fn source_range(above: Option<String>, up_to: Option<String>) -> Result<SourceRange, ClaimsError> {
    for (bound, name) in [(&above, "source_id_gt"), (&up_to, "source_id_lte")] {
        let Some(bound) = bound else { continue };
        id::bounded_text(bound, limits::ID_CHARS).map_err(|problem| BadInput::new(name, problem))?;
    }
    Ok(SourceRange { above, up_to })
}
