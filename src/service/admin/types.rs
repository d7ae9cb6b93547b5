//! Adds and renames types.

use claims_model::limits::{TYPE_NAME_CHARS, is_longer_than};
use claims_model::types::{TypeTable, UNSPECIFIED};
use claims_model::{BadInput, Kind, Naming, Problem, Types};

use super::errors::AdminError;
use super::statements;
use crate::kernel::admin_action::AdminAction;
use crate::kernel::arguments;
use crate::kernel::call::answer;
use crate::kernel::error::ClaimsError;
use crate::service::admin::tables::ROLE_TABLES;
use pg::prelude::*;
use pg::spi::Connection;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn add_bucket_type(
    id: Option<i32>,
    name: Option<String>,
    profile: default!(Option<String>, "'exact'"),
    confusables: default!(Option<String>, "'allow'"),
) -> Result<(), ErrorReport> {
    let action = AdminAction::without_reason("add_bucket_type")?;
    let naming = Naming { profile: arguments::profile(profile)?, confusables: arguments::confusables(confusables)? };
    let action = action.with("profile", naming.profile.name()).with("confusables", naming.confusables.name());
    Ok(add(action, Kind::Bucket, id, name, naming)?)
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn add_subject_type(id: Option<i32>, name: Option<String>) -> Result<(), ErrorReport> {
    Ok(add(AdminAction::without_reason("add_subject_type")?, Kind::Subject, id, name, Naming::default())?)
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn add_source_type(id: Option<i32>, name: Option<String>) -> Result<(), ErrorReport> {
    Ok(add(AdminAction::without_reason("add_source_type")?, Kind::Source, id, name, Naming::default())?)
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn rename_type(kind: Option<String>, id: Option<i32>, name: Option<String>) -> Result<(), ErrorReport> {
    answer(|| {
        arguments::require!(kind, id, name);
        let action = AdminAction::without_reason("rename_type")?;
        let kind = Kind::named(&kind)
            .ok_or_else(|| BadInput::new("kind", Problem::OutOfRange { allowed: "bucket, subject or source" }))?;
        if id == UNSPECIFIED {
            return Err(BadInput::new("id", Problem::Unspecified { kind: kind.name() }).into());
        }
        change(action.with("kind", kind.name()).with("id", id).with("name", name.as_str()), |connection, types| {
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
            statements::rename_type(connection, kind, id, shown, &name);
            Ok(())
        })
    })
}

fn add(
    action: AdminAction,
    kind: Kind,
    id: Option<i32>,
    name: Option<String>,
    naming: Naming,
) -> Result<(), ClaimsError> {
    let (Some(id), Some(name)) = (id, name) else { return Err(AdminError::TypeIncomplete { kind }.into()) };
    change(action.with("id", id).with("name", name.as_str()), |connection, all| {
        let types = all.of(kind);
        // An existing pair needs no check of its form: the seeds may be added again, among them UNSPECIFIED.
        if types.id(&name) == Some(id) {
            return if kind == Kind::Bucket { refuse_other_naming(all, id, naming) } else { Ok(()) };
        }
        refuse_taken(kind, types, id, &name)?;
        if id < 0 || !is_type_name(&name) {
            return Err(AdminError::InvalidType { kind, id, name }.into());
        }
        refuse_long(kind, &name)?;
        statements::add_type(connection, kind, id, &name, naming);
        Ok(())
    })
}

/// Changes the types under a lock, so that the catalog is current until the change is made.
fn change(
    action: AdminAction,
    change: impl FnOnce(&Connection, &Types) -> Result<(), ClaimsError>,
) -> Result<(), ClaimsError> {
    action.perform(|call| {
        ROLE_TABLES.of(call).lock_types(call.connection)?;
        change(call.connection, &call.current_catalog().types)
    })
}

/// Raises an error unless both id and name are free. Called for a pair that does not exist.
fn refuse_taken(kind: Kind, types: &TypeTable, id: i32, name: &str) -> Result<(), ClaimsError> {
    let by_id = types.name(id).map(|_| id);
    match by_id.into_iter().chain(types.id(name)).min() {
        Some(other) => Err(taken(kind, types, id, name, other)),
        None => Ok(()),
    }
}

fn taken(kind: Kind, types: &TypeTable, id: i32, name: &str, other: i32) -> ClaimsError {
    let existing = types.name(other).unwrap_or_default().to_owned();
    AdminError::TypeTaken { kind, id, name: name.to_owned(), other, existing }.into()
}

/// Raises an error if the same pair is added again with another profile, which is no repeat.
fn refuse_other_naming(types: &Types, id: i32, naming: Naming) -> Result<(), ClaimsError> {
    let existing = types.naming(id);
    if existing == naming { Ok(()) } else { Err(AdminError::OtherNaming { id, existing }.into()) }
}

/// Returns whether a name is neither empty nor a number, which would be read as an id.
pub fn is_type_name(name: &str) -> bool {
    !name.bytes().all(|byte| byte.is_ascii_digit())
}

fn refuse_long(kind: Kind, name: &str) -> Result<(), ClaimsError> {
    if is_longer_than(name, TYPE_NAME_CHARS) { Err(AdminError::TypeNameTooLong { kind }.into()) } else { Ok(()) }
}
