//! `add_unique` and `drop_unique`.

use claims_model::limits::REASON_CHARS;
use claims_model::routes::Route;
use claims_model::{BadInput, Kind, Naming, Problem};
use pgrx::pg_sys::Oid;

use super::errors::UniqueError;
use super::existing;
use crate::cell::capture::automatic;
use crate::cell::capture::declare::{must_own, spelled_out};
use crate::cell::capture::errors::CaptureError;
use crate::cell::claimed::declared;
use crate::cell::claimed::unique_tables::{self, ColumnToCompare, UnfitTable};
use crate::cell::routes;
use crate::kernel::admin_action::AdminAction;
use crate::kernel::arguments;
use crate::kernel::call::{Call, answer};
use crate::kernel::catalog::CELL_OF_DATABASE;
use crate::kernel::error::ClaimsError;
use crate::service::admin::types::is_type_name;
use crate::service::admin::{ROLE_TABLES, statements};
use crate::triggers::{self, Purpose};
use pg::lock::{self, Strength};
use pg::name::Name;
use pg::prelude::*;
use pg::spi::Connection;

const NAME_BYTES: usize = 63;

/// A constraint that an administrator adds.
struct NewUnique {
    name: String,
    tables: Vec<(Oid, Option<String>)>,
    column: String,
    naming: Naming,
    condition: Option<String>,
    reason: Option<String>,
    /// Whether the values that the tables have are claimed now, and not by claims.import_unique().
    import: bool,
}

/// Adds a constraint for add_unique, which has spelled out the conditions. A user may call it directly, so it checks everything.
#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn declare_unique(
    name: Option<String>,
    table_names: Option<Vec<Option<Oid>>>,
    column_name: Option<Name>,
    profile: Option<String>,
    condition: Option<String>,
    conditions: Option<Vec<Option<String>>>,
    reason: Option<String>,
    import: Option<bool>,
) -> Result<(), ErrorReport> {
    answer(|| {
        let import = arguments::required(import, "import")?;
        let action = match &reason {
            Some(reason) => AdminAction::begin("add_unique", Some(reason.clone()))?,
            None => AdminAction::without_reason("add_unique")?,
        };
        let name = constraint_name(name)?;
        let Name(column) = arguments::required(column_name, "column_name")?;
        let naming = Naming { profile: arguments::profile(profile)?, ..Naming::default() };
        let tables = tables(table_names, conditions.unwrap_or_default())?;
        let action = action.with("name", name.as_str()).with("column_name", column.as_str());
        let action = action.with("profile", naming.profile.name()).with("condition", condition.as_deref());
        let action = if import { action } else { action.with("import", false) };
        let wanted = NewUnique { name, tables, column, naming, condition, reason, import };
        action.perform(|call| add(call, &wanted))
    })
}

/// Returns a name that a constraint and a type can have.
pub fn constraint_name(name: Option<String>) -> Result<String, ClaimsError> {
    let name = arguments::text(name, "name", NAME_BYTES)?;
    if name.len() > NAME_BYTES {
        return Err(BadInput::new("name", Problem::TooManyBytes { got: name.len(), limit: NAME_BYTES }).into());
    }
    if !is_type_name(&name) {
        return Err(
            BadInput::new("name", Problem::OutOfRange { allowed: "names with something else than digits" }).into()
        );
    }
    Ok(name)
}

/// Returns the tables with their conditions, each once and in the order in which they are locked.
pub fn tables(
    tables: Option<Vec<Option<Oid>>>,
    conditions: Vec<Option<String>>,
) -> Result<Vec<(Oid, Option<String>)>, ClaimsError> {
    let tables = arguments::required(tables, "table_names")?;
    if tables.is_empty() {
        return Err(BadInput::new("table_names", Problem::Empty).into());
    }
    let conditions = conditions.into_iter().chain(std::iter::repeat(None));
    let table = |(at, (table, condition)): (usize, (Option<Oid>, Option<String>))| {
        let table = arguments::required(table, &format!("table_names[{at}]"))?;
        // A caller of declare_unique() may give any text.
        let condition = condition.map(|condition| spelled_out(table, &condition, false)).transpose()?;
        Ok::<_, ClaimsError>((table, condition))
    };
    let mut all = tables.into_iter().zip(conditions).enumerate().map(table).collect::<Result<Vec<_>, _>>()?;
    all.sort_by_key(|(table, _)| table.to_u32());
    all.dedup_by_key(|(table, _)| *table);
    Ok(all)
}

fn add(call: &Call, wanted: &NewUnique) -> Result<(), ClaimsError> {
    let connection = call.connection;
    call.tables.require_here()?;
    // Constraints are added and dropped one after the other.
    ROLE_TABLES.of(call).lock_types(connection)?;
    make_room(call, &wanted.name)?;
    let cell_id = cell_of_database(call)?;
    for (table, _) in &wanted.tables {
        must_fit(connection, *table, &wanted.column)?;
    }
    let type_id = add_types(call, wanted);
    unique_tables::add(
        connection,
        &wanted.name,
        type_id,
        cell_id,
        wanted.condition.as_deref(),
        wanted.reason.as_deref(),
    );
    for (table, condition) in &wanted.tables {
        triggers::add(connection, *table, &Purpose::Unique)?;
        // The table is locked from here on. It may have changed before.
        must_fit(connection, *table, &wanted.column)?;
        unique_tables::add_member(connection, type_id, *table, &wanted.column, condition.as_deref());
    }
    wanted.tables.iter().try_for_each(|(table, _)| match wanted.import {
        true => existing::claim_new_tables(connection, type_id, *table),
        false => {
            existing::leave_to_import(connection, type_id, *table);
            Ok(())
        }
    })
}

/// Raises an error if the name of a constraint is in use. Deletes the rest of one all of whose tables were dropped.
fn make_room(call: &Call, name: &str) -> Result<(), ClaimsError> {
    match unique_tables::named(call.connection, name) {
        Some(existing) if existing.has_tables => return Err(UniqueError::Exists { name: name.to_owned() }.into()),
        Some(existing) => {
            unique_tables::forget_import(call.connection, existing.type_id);
            unique_tables::forget(call.connection, existing.type_id);
        }
        None => {}
    }
    let types = &call.current_catalog().types;
    for kind in [Kind::Bucket, Kind::Subject, Kind::Source] {
        if types.of(kind).id(name).is_some() {
            return Err(UniqueError::IsType { kind, name: name.to_owned() }.into());
        }
    }
    Ok(())
}

/// Returns the cell for which automatic mode claims in this database, after turning it on if it is off.
fn cell_of_database(call: &Call) -> Result<i64, ClaimsError> {
    let routes = routes::automatic(call.connection);
    match routes.as_deref() {
        None if unique_tables::has_claimed_columns(call.connection) => Err(UniqueError::ExplicitMode.into()),
        None => {
            unique_tables::add_cell(call.connection, CELL_OF_DATABASE);
            unique_tables::claim_here(call.connection, CELL_OF_DATABASE);
            Ok(CELL_OF_DATABASE)
        }
        Some(routes) if routes.others == Some(Route::Here) => Ok(routes.cell_id),
        Some(_) => Err(UniqueError::ClaimsElsewhere.into()),
    }
}

/// Returns the owner of a table, and a column. Raises an error unless the caller has the owner's privileges, and the column can be unique.
pub fn must_fit(connection: &Connection, table: Oid, column: &str) -> Result<(Oid, ColumnToCompare), ClaimsError> {
    let found = declared::table(connection, table).ok_or(CaptureError::NoTable { table })?;
    must_own(&found.name, found.owner)?;
    if !found.can_be_claimed {
        return Err(CaptureError::NotClaimable { table: found.name }.into());
    }
    if let Some(UnfitTable { table_name: table, kind }) = unique_tables::unfit_table(connection, table) {
        return Err(UniqueError::UnfitTable { table, kind }.into());
    }
    let (table_name, name, argument) = (found.name, column.to_owned(), "column_name");
    match unique_tables::column(connection, table, column) {
        None => Err(CaptureError::NoArgumentColumn { table: table_name, column: name, argument }.into()),
        Some(ColumnToCompare { is_virtual: true, .. }) => {
            Err(CaptureError::VirtualArgument { table: table_name, column: name, argument }.into())
        }
        Some(ColumnToCompare { has_unique_text: false, type_name, .. }) => {
            Err(UniqueError::UnfitColumn { column: name, type_name }.into())
        }
        Some(fit) => Ok((found.owner, fit)),
    }
}

/// Adds a bucket type, a subject type and a source type of the constraint's name. Returns their number.
fn add_types(call: &Call, wanted: &NewUnique) -> i32 {
    let type_id = unique_tables::unused_type_id(call.connection);
    for kind in [Kind::Bucket, Kind::Subject, Kind::Source] {
        let naming = if kind == Kind::Bucket { wanted.naming } else { Naming::default() };
        statements::add_type(call.connection, kind, type_id, &wanted.name, naming);
    }
    type_id
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn drop_unique(name: Option<String>, reason: Option<String>) -> Result<(), ErrorReport> {
    answer(|| {
        let action = AdminAction::begin("drop_unique", reason)?;
        let name = arguments::text(name, "name", REASON_CHARS)?;
        action.with("name", name.as_str()).perform_counted(|call| {
            let claims = remove(call, &name)?;
            Ok(((), vec![("claims", claims)]))
        })
    })
}

/// Drops a constraint. Returns the number of its claims.
fn remove(call: &Call, name: &str) -> Result<i64, ClaimsError> {
    let connection = call.connection;
    ROLE_TABLES.of(call).lock_types(connection)?;
    let unique =
        unique_tables::named(connection, name).ok_or_else(|| UniqueError::Unknown { name: name.to_owned() })?;
    // Values that this transaction has saved before need the types.
    automatic::send_now()?;
    // An import locks its progress before the tables.
    unique_tables::forget_import(connection, unique.type_id);
    let members = unique_tables::members(connection, unique.type_id);
    // Claims that open transactions have made are committed or gone after that. Some of them may have written a partition by its own name, and
    // have locked nothing else. Tables come before their partitions, as in a statement that writes.
    members.iter().for_each(|table| lock::table(*table, Strength::AgainstAll));
    let all = unique_tables::all_tables(connection, unique.type_id);
    all.iter().for_each(|table| lock::table(*table, Strength::AgainstAll));
    let claims = unique_tables::forget(connection, unique.type_id);
    for table in members {
        if !unique_tables::is_member(connection, table) {
            triggers::drop(connection, table, &Purpose::Unique)?;
        }
    }
    let is_needed = unique_tables::any(connection) || unique_tables::has_claimed_columns(connection);
    if unique.cell_id == CELL_OF_DATABASE && !is_needed {
        unique_tables::forget_cell(connection, CELL_OF_DATABASE);
    }
    Ok(claims)
}
