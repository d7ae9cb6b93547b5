//! `claim_attribute` and `unclaim_attribute`: choose the claimed columns.

use claims_model::origin::Approval;
use claims_model::types::Types;
use claims_model::{BadInput, Kind, Problem};
use pgrx::pg_sys::Oid;

use super::declare::{must_own, spelled_out};
use super::errors::{CaptureError, notice_of_changed_declaration, warn_of_no_unique_index};
use crate::cell::claimed::authority;
use crate::cell::claimed::declared::{self, ClaimableTable, Declaration, Uniqueness};
use crate::kernel::error::ClaimsError;
use crate::kernel::{access, arguments, catalog};
use crate::triggers::{self, Purpose};
use pg::name::{Name, Relation};
use pg::prelude::*;
use pg::roles;
use pg::spi::{self, Connection};

/// Declares a column for claim_attribute, which has spelled out the condition. A user may call it directly, so it checks
/// everything.
#[pg_extern(name = "declare_attribute", schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn declare_attribute_2(
    table_name: Option<Relation>,
    attribute: Option<Name>,
    bucket_type: Option<String>,
    subject_type: Option<String>,
    subject_key: Option<Name>,
    source_type: Option<String>,
    source_key: Option<Name>,
    condition: Option<String>,
    declaration: Option<Name>,
    constraint_name: Option<Name>,
) -> Result<(), ErrorReport> {
    let Relation(table) = arguments::required(table_name, "table_name")?;
    let Name(attribute) = arguments::required(attribute, "attribute")?;
    arguments::require!(bucket_type, subject_type);
    let Name(subject_key) = arguments::required(subject_key, "subject_key")?;
    let source_type = arguments::required(source_type, "source_type")?;
    let source_key = source_key.map(|Name(key)| key);
    let name = optional_name(declaration, "declaration")?.unwrap_or_else(|| attribute.clone());
    let constraint_name = optional_name(constraint_name, "constraint_name")?;
    let mut declaration = Declaration {
        attribute,
        name,
        bucket_type,
        subject_type,
        subject_key,
        source_type,
        source_key,
        condition: None,
        constraint_name,
    };
    let (table_name, approval) = spi::connect(|connection| complete(connection, table, &mut declaration))?;
    // This reads the owner's code and can raise a WARNING, which can leave this function by an error: no resource may be open.
    declaration.condition = condition.map(|condition| spelled_out(table, &condition, true)).transpose()?;
    let (before, now, uniqueness) = spi::connect(|connection| {
        let recorded = || declared::declaration(connection, table, &declaration.attribute, &declaration.name);
        let before = recorded();
        declared::record(connection, table, &declaration, &approval);
        let profile = catalog::current(connection).types.profile_of(&declaration.bucket_type);
        (before, recorded(), declared::uniqueness(connection, table, &declaration.attribute, profile.name()))
    });
    if let (Some(before), Some(now)) = (&before, &now)
        && let changes = before.differences(now)
        && !changes.is_empty()
    {
        notice_of_changed_declaration(&table_name, &now.attribute, &now.name, &changes);
    }
    if let Some(Uniqueness { expression, has_unique_index: false, is_partitioned }) = uniqueness {
        warn_of_no_unique_index(&table_name, &declaration.attribute, &expression, is_partitioned);
    }
    Ok(())
}

/// Returns a name, which must not be empty.
fn optional_name(name: Option<Name>, argument: &str) -> Result<Option<String>, ClaimsError> {
    match name {
        Some(Name(name)) if name.is_empty() => Err(BadInput::new(argument, Problem::Empty).into()),
        name => Ok(name.map(|Name(name)| name)),
    }
}

/// Raises an error unless the declaration fits the table, and completes it. Locks the table, so that no column changes
/// afterwards.
fn complete(
    connection: &Connection,
    table: Oid,
    declaration: &mut Declaration,
) -> Result<(String, Approval), ClaimsError> {
    let ClaimableTable { name, owner, can_be_claimed } = own_table(connection, table)?;
    let approval = approval(connection, owner)?;
    if !can_be_claimed {
        return Err(CaptureError::NotClaimable { table: name }.into());
    }
    triggers::add(connection, table, &Purpose::Claims)?;
    // The table is locked from here on. It may have got an inheritance child before.
    if !own_table(connection, table)?.can_be_claimed {
        return Err(CaptureError::NotClaimable { table: name }.into());
    }
    if declaration.source_key.is_none() {
        declaration.source_key = declared::key_column(connection, table);
    }
    let Some(source_key) = &declaration.source_key else {
        return Err(CaptureError::NoKeyColumn { table: name }.into());
    };
    let keys = [("subject_key", &declaration.subject_key), ("source_key", source_key)];
    let attribute_type = column(connection, table, &name, "attribute", &declaration.attribute)?;
    for (argument, key) in keys {
        if let Some(type_name) = column(connection, table, &name, argument, key)? {
            return Err(CaptureError::UnfitKey { argument, column: key.clone(), type_name }.into());
        }
    }
    let types = &catalog::current(connection).types;
    declaration.bucket_type = first_name_of(types, Kind::Bucket, &declaration.bucket_type)?;
    declaration.subject_type = first_name_of(types, Kind::Subject, &declaration.subject_type)?;
    declaration.source_type = first_name_of(types, Kind::Source, &declaration.source_type)?;
    match attribute_type {
        Some(type_name) => Err(CaptureError::UnfitColumn { column: declaration.attribute.clone(), type_name }.into()),
        None => Ok((name, approval)),
    }
}

/// Returns what the caller approves by a declaration on a table of `owner`. Where automatic mode claims names in this database, raises an error
/// unless the caller may act for its cell.
fn approval(connection: &Connection, owner: Oid) -> Result<Approval, ClaimsError> {
    let own_cell = authority::own_cell(connection);
    if let Some(own_cell) = &own_cell {
        access::act_for(&catalog::current(connection), own_cell.cell_id)?;
    }
    let by_administrator = roles::caller_is_admin();
    let cell_id = own_cell.map(|cell| cell.cell_id).filter(|_| !by_administrator);
    let is_approved = by_administrator || cell_id.is_some();
    Ok(Approval { owner: is_approved.then(|| owner.to_u32()), cell_id })
}

/// Returns a table if the caller has the privileges of its owner.
fn own_table(connection: &Connection, table: Oid) -> Result<ClaimableTable, ClaimsError> {
    let found = declared::table(connection, table).ok_or(CaptureError::NoTable { table })?;
    must_own(&found.name, found.owner)?;
    Ok(found)
}

/// Raises an error unless the table has a column that triggers see. Returns the column's type if that has no fixed text.
fn column(
    connection: &Connection,
    table: Oid,
    table_name: &str,
    argument: &'static str,
    column: &str,
) -> Result<Option<String>, ClaimsError> {
    let (table_name, name) = (table_name.to_owned(), column.to_owned());
    match declared::column(connection, table, column) {
        None => Err(CaptureError::NoArgumentColumn { table: table_name, column: name, argument }.into()),
        Some(found) if found.is_virtual => {
            Err(CaptureError::VirtualArgument { table: table_name, column: name, argument }.into())
        }
        Some(found) => Ok((!found.has_fixed_text).then_some(found.type_name)),
    }
}

/// Returns the first name of a type, by which it is found again after it was renamed.
pub fn first_name_of(types: &Types, kind: Kind, name: &str) -> Result<String, ClaimsError> {
    match types.of(kind).first_name_of(name) {
        Some(first) if first != "UNSPECIFIED" => Ok(first.to_owned()),
        _ => Err(CaptureError::NoSuchType { kind, name: name.to_owned() }.into()),
    }
}

#[pg_extern(name = "unclaim_attribute", schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn unclaim_attribute_2(
    table_name: Option<Relation>,
    attribute: Option<Name>,
    declaration: default!(Option<Name>, "NULL"),
) -> Result<(), ErrorReport> {
    Ok(spi::connect(|connection| {
        let Relation(table) = arguments::required(table_name, "table_name")?;
        let Name(attribute) = arguments::required(attribute, "attribute")?;
        let ClaimableTable { name, .. } = own_table(connection, table)?;
        let declaration = declaration.map(|Name(name)| name);
        if !declared::forget(connection, table, &attribute, declaration.as_deref()) {
            return Err(match declaration {
                None => CaptureError::NotClaimed { table: name, attribute },
                Some(declaration) => CaptureError::NoDeclaration { table: name, attribute, declaration },
            }
            .into());
        }
        if !declared::is_claimed(connection, table) {
            triggers::drop(connection, table, &Purpose::Claims)?;
        }
        Ok::<_, ClaimsError>(())
    })?)
}
