//! The canonical form of a name, and the check that cell and service have the same one.

use std::borrow::Cow;

use claims_model::types::Kind;
use claims_model::{BadInput, Problem, Profile, UNICODE_VERSION, id};

use super::errors::NamesError;
use crate::kernel::error::ClaimsError;
use crate::kernel::{access, arguments, catalog, tables};
use pg::prelude::*;

/// Returns the canonical form of a name. It runs no statement if the types are cached.
#[pg_extern(schema = "claims", security_definer, stable, parallel_safe)]
#[search_path(pg_catalog, pg_temp)]
fn canonical(bucket_type: Option<String>, bucket_value: Option<String>) -> Result<String, ErrorReport> {
    Ok(of_type(bucket_type, bucket_value)?)
}

fn of_type(bucket_type: Option<String>, bucket_value: Option<String>) -> Result<String, ClaimsError> {
    arguments::require!(bucket_type, bucket_value);
    let catalog = catalog::current_without_spi();
    let number = id::type_from_text(&bucket_type, Kind::Bucket, &catalog.types)
        .map_err(|problem| BadInput::new("bucket_type", problem))?;
    // A query compares the result with names in its snapshot, so the profile must be of that snapshot, too.
    let types = catalog.types_in_snapshot(tables::at_entry(), Some(number));
    let canonical = types.canonical(number, &bucket_value);
    Ok(canonical.map_err(|problem| BadInput::new("bucket_value", Problem::name(problem)))?.into_owned())
}

/// Returns a canonical form for indexes of a cell's own tables. It is IMMUTABLE: a release with a newer version of Unicode asks
/// for a REINDEX, and a valid name keeps its form. It reads no table, so that rows can be written while the extension is being
/// upgraded.
#[pg_extern(schema = "claims", immutable, parallel_safe)]
fn canonical_form(profile: &str, name: &str) -> Result<Option<String>, ErrorReport> {
    // A name that the profile refuses is no error: a row may have it, but cannot have a claim.
    Ok(arguments::profile_named(profile)?.canonical(name).ok().map(Cow::into_owned))
}

/// Raises an error unless the service compares names of these bucket types as the cell does. Cells call it at the service. Every save
/// calls it, so it runs with the caller's rights: PostgreSQL changes a role and two settings for a call of another function.
#[pg_extern(schema = "claims", stable)]
fn require_naming(
    unicode: Option<String>,
    bucket_types: Option<Vec<Option<String>>>,
    profiles: Option<Vec<Option<String>>>,
) -> Result<(), ErrorReport> {
    access::refuse_restricted()?;
    Ok(compare(unicode, bucket_types, profiles)?)
}

fn compare(
    unicode: Option<String>,
    bucket_types: Option<Vec<Option<String>>>,
    profiles: Option<Vec<Option<String>>>,
) -> Result<(), ClaimsError> {
    arguments::require!(unicode, bucket_types, profiles);
    let catalog = catalog::current_without_spi();
    for (bucket_type, profile) in bucket_types.iter().zip(&profiles) {
        let (Some(bucket_type), Some(there)) = (bucket_type, profile) else { continue };
        // The call itself refuses a type that is unknown here.
        let Some(number) = catalog.types.bucket.id(bucket_type) else { continue };
        let here = catalog.types.naming(number).profile;
        if here.name() != there {
            let (bucket_type, there) = (bucket_type.clone(), there.clone());
            return Err(NamesError::OtherProfile { bucket_type, here, there }.into());
        }
        // Exact names compare bytes, which are the same in every version of Unicode.
        if here != Profile::Exact && unicode != UNICODE_VERSION {
            return Err(NamesError::OtherUnicode { there: unicode }.into());
        }
    }
    Ok(())
}
