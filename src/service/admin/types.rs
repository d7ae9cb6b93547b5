//! Types: adding them, and giving them other names.

use claims_model::limits::{FIRST_FREE_TYPE, TYPE_NAME_CHARS, is_longer_than};
use claims_model::types::{TypeTable, UNSPECIFIED};
use claims_model::{BadInput, Kind, Naming, Problem, Types};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use super::names;
use crate::access;
use crate::acts::Act;
use crate::error::{AdminError, ClaimsError};
use crate::pg::spi::Connection;
use crate::store::catalog;
use crate::store::service::admin;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn add_bucket_type(
    id: Option<i32>,
    name: Option<String>,
    profile: default!(Option<String>, "'exact'"),
    confusables: default!(Option<String>, "'allow'"),
) -> Result<(), ErrorReport> {
    let act = Act::without_reason("add_bucket_type")?;
    let naming = Naming { profile: names::profile(profile)?, confusables: names::confusables(confusables)? };
    let act = act.with("profile", naming.profile.name()).with("confusables", naming.confusables.name());
    Ok(add(act, Kind::Bucket, id, name, naming)?)
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn add_subject_type(id: Option<i32>, name: Option<String>) -> Result<(), ErrorReport> {
    Ok(add(Act::without_reason("add_subject_type")?, Kind::Subject, id, name, Naming::default())?)
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn add_source_type(id: Option<i32>, name: Option<String>) -> Result<(), ErrorReport> {
    Ok(add(Act::without_reason("add_source_type")?, Kind::Source, id, name, Naming::default())?)
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn rename_type(kind: Option<String>, id: Option<i32>, name: Option<String>) -> Result<(), ErrorReport> {
    Ok(rename(kind, id, name)?)
}

fn add(act: Act, kind: Kind, id: Option<i32>, name: Option<String>, naming: Naming) -> Result<(), ClaimsError> {
    let (Some(id), Some(name)) = (id, name) else { return Err(AdminError::TypeIncomplete { kind }.into()) };
    change(act.with("id", id).with("name", name.as_str()), |connection, all| {
        let types = all.of(kind);
        // What is there already needs no look at its form: the seeds may be added again, UNSPECIFIED with them.
        if types.id(&name) == Some(id) {
            return if kind == Kind::Bucket { refuse_other_naming(all, id, naming) } else { Ok(()) };
        }
        refuse_taken(kind, types, id, &name)?;
        if id < FIRST_FREE_TYPE || !is_type_name(&name) {
            return Err(AdminError::InvalidType { kind, id, name }.into());
        }
        refuse_long(kind, &name)?;
        admin::add_type(connection, kind, id, &name, naming);
        Ok(())
    })
}

fn rename(kind: Option<String>, id: Option<i32>, name: Option<String>) -> Result<(), ClaimsError> {
    let kind = access::given(kind, "kind")?;
    let id = access::given(id, "id")?;
    let name = access::given(name, "name")?;
    let act = Act::without_reason("rename_type")?;
    let kind = Kind::named(&kind)
        .ok_or_else(|| BadInput::new("kind", Problem::OutOfRange { allowed: "bucket, subject or source" }))?;
    if id == UNSPECIFIED {
        return Err(BadInput::new("id", Problem::Unspecified { kind: kind.name() }).into());
    }
    change(act.with("kind", kind.name()).with("id", id).with("name", name.as_str()), |connection, types| {
        let types = types.of(kind);
        let Some(shown) = types.name(id) else {
            return Err(BadInput::new("id", Problem::UnknownType { kind: kind.name(), got: id.to_string() }).into());
        };
        if shown == name {
            return Ok(());
        }
        match types.id(&name) {
            Some(other) if other != id => return Err(taken(kind, types, id, &name, other)),
            Some(_) => {}
            None if !is_type_name(&name) => return Err(AdminError::InvalidType { kind, id, name }.into()),
            None => refuse_long(kind, &name)?,
        }
        admin::rename_type(connection, kind, id, shown, &name);
        Ok(())
    })
}

/// Administrators follow each other: what one sees of the types is what there is until it has changed them.
fn change(act: Act, change: impl FnOnce(&Connection, &Types) -> Result<(), ClaimsError>) -> Result<(), ClaimsError> {
    act.perform(|connection| {
        admin::lock_types(connection);
        change(connection, &catalog::current(connection).types)
    })
}

/// An id and a name that are not yet a pair must both be free.
fn refuse_taken(kind: Kind, types: &TypeTable, id: i32, name: &str) -> Result<(), ClaimsError> {
    let by_id = types.name(id).map(|_| id);
    match by_id.into_iter().chain(types.id(name)).min() {
        Some(other) => Err(taken(kind, types, id, name, other)),
        None => Ok(()),
    }
}

fn taken(kind: Kind, types: &TypeTable, id: i32, name: &str, other: i32) -> ClaimsError {
    let known = types.name(other).unwrap_or_default().to_owned();
    AdminError::TypeTaken { kind, id, name: name.to_owned(), other, known }.into()
}

/// The same pair again, compared in another way: that is no repeat.
fn refuse_other_naming(types: &Types, id: i32, naming: Naming) -> Result<(), ClaimsError> {
    let known = types.naming(id);
    if known == naming { Ok(()) } else { Err(AdminError::OtherNaming { id, known }.into()) }
}

/// Neither empty nor a number, which would be taken for an id.
fn is_type_name(name: &str) -> bool {
    !name.bytes().all(|byte| byte.is_ascii_digit())
}

fn refuse_long(kind: Kind, name: &str) -> Result<(), ClaimsError> {
    if is_longer_than(name, TYPE_NAME_CHARS) { Err(AdminError::TypeNameTooLong { kind }.into()) } else { Ok(()) }
}
