//! DDL on tables with unique columns: partitions that come and go, and columns that are renamed, dropped, or get another type.

use pgrx::pg_sys::Oid;

use super::existing;
use crate::cell::capture::{automatic, declare};
use crate::cell::claimed::unique_tables::{self, MemberRow};
use crate::kernel::error::{ClaimsError, raise, refuse_direct_call_of_event_trigger};
use crate::triggers::{self, Purpose, as_extension_owner};
use pg::event_trigger::{EventTriggers, TableChange};
use pg::extension;
use pg::settings::with_search_path;
use pg::spi::{self, Connection};

/// The event triggers of the extension. They also do what claimed and captured tables need.
pub const EVENT_TRIGGERS: EventTriggers =
    EventTriggers { table_changed, tables_dropped, refuse_direct_call: refuse_direct_call_of_event_trigger };

/// Returns whether the tables of constraints are there: a script that updates the extension may not have made them yet.
fn is_usable() -> bool {
    declare::is_usable() && !extension::is_script_of(c"claims")
}

fn table_changed(change: TableChange) {
    declare::after_change(change);
    if is_usable() {
        raise(with_search_path(c"pg_catalog, pg_temp", || after_change(change)));
    }
}

fn after_change(change: TableChange) -> Result<(), ClaimsError> {
    let changed = spi::connect(unique_tables::changed_tables);
    let members = spi::connect(|connection| {
        as_extension_owner(connection, || unique_tables::members_among(connection, &changed)).unwrap_or_default()
    });
    if members.is_empty() {
        return Ok(());
    }
    if change.detaches || change.retypes {
        // Values that the transaction has saved before are those of the generations that end.
        automatic::send_now()?;
    }
    spi::connect(|connection| {
        let follow_all = || {
            unique_tables::follow_renamed(connection);
            members.iter().try_for_each(|member| follow(connection, member, change, &changed))
        };
        as_extension_owner(connection, follow_all).unwrap_or(Ok(()))
    })
}

/// Adjusts the generations of the tables that belong to one table of a constraint.
fn follow(
    connection: &Connection,
    member: &MemberRow,
    change: TableChange,
    changed: &[Oid],
) -> Result<(), ClaimsError> {
    let &MemberRow { type_id, root } = member;
    triggers::complete_table(connection, root, &Purpose::Unique);
    if change.detaches {
        unique_tables::end_generations_of_others(connection, type_id);
    }
    if change.retypes && changed.contains(&root) {
        unique_tables::end_generations_of(connection, type_id, root);
    }
    existing::claim_new_tables(connection, type_id, root)
}

fn tables_dropped() {
    declare::forget_dropped_tables();
    if is_usable() {
        raise(with_search_path(c"pg_catalog, pg_temp", after_drop));
    }
}

fn after_drop() -> Result<(), ClaimsError> {
    let is_any_gone =
        spi::connect(|connection| as_extension_owner(connection, || unique_tables::is_any_gone(connection)));
    if is_any_gone != Some(true) {
        return Ok(());
    }
    automatic::send_now()?;
    spi::connect(|connection| {
        as_extension_owner(connection, || {
            unique_tables::follow_renamed(connection);
            unique_tables::end_dropped(connection);
            for type_id in unique_tables::forget_gone(connection) {
                unique_tables::end_generations_of_others(connection, type_id);
            }
        })
    });
    Ok(())
}
