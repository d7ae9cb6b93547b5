//! How names are compared: what administrators choose for a type, what a name becomes, and whether cell and service agree.

use std::borrow::Cow;

use claims_model::types::Kind;
use claims_model::{BadInput, Confusables, Problem, Profile, UNICODE_VERSION, id};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::access;
use crate::error::{ClaimsError, NamesError};
use crate::store::catalog;

/// The profile that an argument names.
pub fn profile(name: Option<String>) -> Result<Profile, ClaimsError> {
    profile_named(&access::given(name, "profile")?)
}

fn profile_named(name: &str) -> Result<Profile, ClaimsError> {
    const ALLOWED: &str = "exact, casefold, username, domain, email or path";
    let bad = || BadInput::new("profile", Problem::OutOfRange { allowed: ALLOWED });
    Ok(Profile::parse(name).ok_or_else(bad)?)
}

/// What is to become of names that look alike.
pub fn confusables(name: Option<String>) -> Result<Confusables, ClaimsError> {
    let name = access::given(name, "confusables")?;
    let bad = || BadInput::new("confusables", Problem::OutOfRange { allowed: "allow or reject" });
    Ok(Confusables::parse(&name).ok_or_else(bad)?)
}

/// Executes no statement, as long as the types are known.
#[pg_extern(schema = "claims", security_definer, stable, parallel_safe)]
#[search_path(pg_catalog, pg_temp)]
fn canonical(bucket_type: Option<String>, bucket_value: Option<String>) -> Result<String, ErrorReport> {
    Ok(of_type(bucket_type, bucket_value)?)
}

fn of_type(bucket_type: Option<String>, bucket_value: Option<String>) -> Result<String, ClaimsError> {
    let bucket_type = access::given(bucket_type, "bucket_type")?;
    let bucket_value = access::given(bucket_value, "bucket_value")?;
    let catalog = catalog::current_without_spi();
    let number = id::type_from_text(&bucket_type, Kind::Bucket, &catalog.types)
        .map_err(|problem| BadInput::new("bucket_type", problem))?;
    let canonical = catalog.types.canonical(number, &bucket_value);
    Ok(canonical.map_err(|problem| BadInput::new("bucket_value", Problem::name(problem)))?.into_owned())
}

/// For indexes of a cell's own tables. IMMUTABLE: a newer version of Unicode comes with a release that asks for a REINDEX, and
/// what was a name stays what it is. Reads no table, so that rows can be written while the extension is being upgraded.
#[pg_extern(schema = "claims", immutable, parallel_safe)]
fn canonical_form(profile: &str, name: &str) -> Result<Option<String>, ErrorReport> {
    // A name that the profile does not take is no error: a row may have it, and no claim.
    Ok(profile_named(profile)?.canonical(name).ok().map(Cow::into_owned))
}

/// At the service, for cells: raises unless names of these bucket types are compared here as they are there.
#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn require_naming(
    unicode: Option<String>,
    bucket_types: Option<Vec<Option<String>>>,
    profiles: Option<Vec<Option<String>>>,
) -> Result<(), ErrorReport> {
    Ok(compare(unicode, bucket_types, profiles)?)
}

fn compare(
    unicode: Option<String>,
    bucket_types: Option<Vec<Option<String>>>,
    profiles: Option<Vec<Option<String>>>,
) -> Result<(), ClaimsError> {
    let unicode = access::given(unicode, "unicode")?;
    let bucket_types = access::given(bucket_types, "bucket_types")?;
    let profiles = access::given(profiles, "profiles")?;
    let catalog = catalog::current_without_spi();
    for (bucket_type, profile) in bucket_types.iter().zip(&profiles) {
        let (Some(bucket_type), Some(there)) = (bucket_type, profile) else { continue };
        // A type that is not known here is for the call itself to refuse.
        let Some(number) = catalog.types.bucket.id(bucket_type) else { continue };
        let here = catalog.types.naming(number).profile;
        if here.name() != there {
            let (bucket_type, there) = (bucket_type.clone(), there.clone());
            return Err(NamesError::OtherProfile { bucket_type, here, there }.into());
        }
        // Bytes are bytes in every version.
        if here != Profile::Exact && unicode != UNICODE_VERSION {
            return Err(NamesError::OtherUnicode { there: unicode }.into());
        }
    }
    Ok(())
}
