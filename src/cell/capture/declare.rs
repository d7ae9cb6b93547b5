//! Conditions, rights and triggers for declaring a claimed column.

use pgrx::pg_sys::Oid;

use super::errors::{CaptureError, warn_of_mutable_condition};
use super::unfit_tables::{self, ChildOfClaimed};
use crate::kernel::error::{ClaimsError, raise};
use crate::kernel::{access, arguments, tables, version};
use crate::triggers::{self, Purpose};
use pg::event_trigger::TableChange;
use pg::prelude::*;
use pg::spi::{self, Connection};
use pg::{expression, roles};

/// Returns a condition with all its names spelled out, as the caller's search_path resolves them, so that it means the same for
/// everybody later. The condition is read with the rights of the table's owner. With `warn`, raises a WARNING if it is not
/// immutable.
#[pg_extern(schema = "claims", stable)]
fn spell_out_condition(
    table_name: Option<Oid>,
    condition: Option<String>,
    warn: Option<bool>,
) -> Result<Option<String>, ErrorReport> {
    let (Some(table), Some(condition)) = (table_name, condition) else { return Ok(None) };
    Ok(Some(spelled_out(table, &condition, warn == Some(true))?))
}

/// Like [spell_out_condition], with all arguments present.
pub fn spelled_out(table: Oid, condition: &str, warn: bool) -> Result<String, ClaimsError> {
    access::refuse_restricted()?;
    let read = expression::read_condition(table, condition, |owner| match roles::caller() {
        caller if roles::has_privileges_of(caller, owner) => Ok(()),
        caller => Err(CaptureError::NotTheOwner { table: expression::table_name(table), caller: roles::name(caller) }),
    });
    let read = read?.ok_or(CaptureError::NotACondition)?;
    if read.reads_virtual_column {
        return Err(CaptureError::VirtualInCondition.into());
    }
    if warn && !read.is_immutable {
        warn_of_mutable_condition();
    }
    Ok(read.text)
}

/// Raises an error unless the caller has the privileges of a table's owner.
pub fn must_own(table: &str, owner: Oid) -> Result<(), ClaimsError> {
    access::refuse_restricted()?;
    let caller = roles::caller();
    if roles::has_privileges_of(caller, owner) {
        return Ok(());
    }
    Err(CaptureError::NotTheOwner { table: table.to_owned(), caller: roles::name(caller) }.into())
}

/// Creates or drops the triggers of claimed tables, for SQL functions that have checked the caller's rights. Only the extension's
/// owner may execute it.
#[pg_extern(schema = "claims")]
#[search_path(pg_catalog, pg_temp)]
fn change_capture_triggers(table_name: Option<Oid>, add: Option<bool>) -> Result<(), ErrorReport> {
    change(table_name, add, &Purpose::Claims)
}

/// Creates or drops the triggers of tables whose changes become requests, for upgrades.
#[pg_extern(schema = "claims")]
#[search_path(pg_catalog, pg_temp)]
fn change_request_triggers(
    table_name: Option<Oid>,
    queue: Option<String>,
    entity_column: Option<String>,
    add: Option<bool>,
) -> Result<(), ErrorReport> {
    let queue = arguments::required(queue, "queue")?;
    change(table_name, add, &Purpose::Requests { queue, column: entity_column.unwrap_or_default() })
}

fn change(table: Option<Oid>, add: Option<bool>, purpose: &Purpose) -> Result<(), ErrorReport> {
    let table = arguments::required(table, "table_name")?;
    let change = if arguments::required(add, "add")? { triggers::add } else { triggers::drop };
    Ok(spi::connect(|connection| change(connection, table, purpose)).map_err(ClaimsError::from)?)
}

/// Refuses commands that would leave names without claims, and creates the triggers that refuse TRUNCATE on new partitions.
pub fn after_change(change: TableChange) {
    if !is_usable() {
        return;
    }
    let done = spi::connect(|connection| {
        refuse_unfit(connection, change)?;
        triggers::complete(connection, change.attaches);
        if change.reowns {
            triggers::follow_owners(connection);
        }
        Ok(())
    });
    raise::<()>(done);
}

/// Returns an error if the command has made an inheritance child of a claimed table, or an unlogged table of the extension.
fn refuse_unfit(connection: &Connection, change: TableChange) -> Result<(), ClaimsError> {
    if let Some(ChildOfClaimed { child, parent: table }) = unfit_tables::child_of_claimed(connection, change.inherits) {
        return Err(CaptureError::InheritsFromClaimed { child, table }.into());
    }
    match change.unlogs.then(|| unfit_tables::unlogged(connection)).flatten() {
        Some(table) => Err(CaptureError::Unlogged { table }.into()),
        None => Ok(()),
    }
}

/// Returns whether event triggers may act: they do nothing, and stop no command, if library and tables are of different versions or the
/// tables are not in this database. ALTER EXTENSION catches up later.
pub fn is_usable() -> bool {
    version::is_same() && tables::are_usable()
}

/// Deletes the declarations of dropped tables.
pub fn forget_dropped_tables() {
    if !is_usable() {
        return;
    }
    spi::connect(triggers::forget);
}
