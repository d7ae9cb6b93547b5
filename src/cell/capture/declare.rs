//! What declaring takes: conditions, the right to do it, and the triggers.

use pgrx::pg_sys::Oid;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::error::{CaptureError, ClaimsError};
use crate::pg::event_trigger::EventTriggers;
use crate::pg::{expression, roles, spi};
use crate::store::cell::triggers::{self, Purpose};
use crate::{access, distribution, version};

/// A condition with all its names spelled out, as the caller's search_path has them: so it means the same to everybody
/// later on. For the table's owner, with whose rights it is read. `warn`: of one that is not immutable.
#[pg_extern(schema = "claims", stable)]
fn spell_out_condition(
    table_name: Option<Oid>,
    condition: Option<String>,
    warn: Option<bool>,
) -> Result<Option<String>, ErrorReport> {
    let (Some(table), Some(condition)) = (table_name, condition) else { return Ok(None) };
    Ok(Some(spelled_out(table, &condition, warn == Some(true))?))
}

/// The same, of what is given.
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
        crate::error::warn_of_mutable_condition();
    }
    Ok(read.text)
}

/// Raises unless the caller has the privileges of a table's owner.
pub fn must_own(table: &str, owner: Oid) -> Result<(), ClaimsError> {
    access::refuse_restricted()?;
    let caller = roles::caller();
    if roles::has_privileges_of(caller, owner) {
        return Ok(());
    }
    Err(CaptureError::NotTheOwner { table: table.to_owned(), caller: roles::name(caller) }.into())
}

/// For SQL functions that have made sure of the caller's rights: puts the triggers of claimed tables on a table, or takes
/// them off. Executable by the extension's owner only.
#[pg_extern(schema = "claims")]
#[search_path(pg_catalog, pg_temp)]
fn change_capture_triggers(table_name: Option<Oid>, add: Option<bool>) -> Result<(), ErrorReport> {
    change(table_name, add, &Purpose::Claims)
}

/// As `change_capture_triggers`, of tables whose changes become requests: for upgrades.
#[pg_extern(schema = "claims")]
#[search_path(pg_catalog, pg_temp)]
fn change_request_triggers(
    table_name: Option<Oid>,
    queue: Option<String>,
    entity_column: Option<String>,
    add: Option<bool>,
) -> Result<(), ErrorReport> {
    let queue = access::given(queue, "queue")?;
    change(table_name, add, &Purpose::Requests { queue, column: entity_column.unwrap_or_default() })
}

fn change(table: Option<Oid>, add: Option<bool>, purpose: &Purpose) -> Result<(), ErrorReport> {
    let table = access::given(table, "table_name")?;
    let change = if access::given(add, "add")? { triggers::add } else { triggers::drop };
    Ok(spi::connect(|connection| change(connection, table, purpose)).map_err(ClaimsError::from)?)
}

/// What happens to tables that may be claimed or captured. Where library and tables are of two versions, or the tables are not in
/// this database, nothing is done, and no command is stopped: ALTER EXTENSION makes up for it.
pub const EVENT_TRIGGERS: EventTriggers =
    EventTriggers { table_changed: complete_triggers, tables_dropped: forget_dropped_tables };

/// Event trigger: partitions that come later refuse TRUNCATE, too.
fn complete_triggers(has_attached: bool) {
    if !is_usable() {
        return;
    }
    spi::connect(|connection| triggers::complete(connection, has_attached));
}

fn is_usable() -> bool {
    version::is_same() && distribution::has_own_tables()
}

/// Event trigger: a table that is dropped is claimed and captured no more.
fn forget_dropped_tables() {
    if !is_usable() {
        return;
    }
    spi::connect(triggers::forget);
}
