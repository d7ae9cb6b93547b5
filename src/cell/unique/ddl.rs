//! DDL on tables with unique columns: partitions that come and go, and columns that are renamed, dropped, or get another type.

use super::errors::UniqueError;
use super::existing;
use crate::cell::capture::{automatic, declare};
use crate::cell::claimed::unique_members;
use crate::cell::claimed::unique_tables::{self, MemberRow, UnfitTable};
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
    if change.renames {
        spi::connect(|connection| as_extension_owner(connection, || follow_renamed(connection)));
    }
    if !concerns_tables(change) {
        return Ok(());
    }
    let changed = spi::connect(unique_tables::changed_tables);
    let members = spi::connect(|connection| {
        as_extension_owner(connection, || unique_tables::members_among(connection, &changed)).unwrap_or_default()
    });
    if members.is_empty() {
        return Ok(());
    }
    if change.attaches || change.detaches || change.retypes {
        // Values that the transaction has saved before are those of the generations that end. Values that it has moved to the table that it
        // attaches are given up first.
        automatic::send_now()?;
    }
    spi::connect(|connection| {
        let follow_all = || members.iter().try_for_each(|member| follow(connection, member, change));
        as_extension_owner(connection, follow_all).unwrap_or(Ok(()))?;
        if change.reowns {
            changed.iter().for_each(|table| triggers::grant_to_owner(connection, *table, &Purpose::Unique));
        }
        Ok(())
    })
}

/// Returns whether a command can change which tables have unique columns, or the values that these have. Other commands look at no partitions.
fn concerns_tables(change: TableChange) -> bool {
    let TableChange { creates, attaches, detaches, retypes, unlogs, types, reowns, .. } = change;
    creates || attaches || detaches || retypes || unlogs || types || reowns
}

/// Gives renamed columns their new names. An UPDATE sends an invalidation to all sessions, even if it updates nothing.
fn follow_renamed(connection: &Connection) {
    unique_members::know_columns(connection);
    if unique_members::is_any_renamed(connection) {
        unique_members::follow_renamed(connection);
    }
}

/// Adjusts the generations of the tables of a constraint that a command has changed.
fn follow(connection: &Connection, member: &MemberRow, change: TableChange) -> Result<(), ClaimsError> {
    let &MemberRow { type_id, root, changed } = member;
    let may_be_unfit = change.creates || change.attaches || change.unlogs || change.types;
    let unfit = if may_be_unfit { unique_tables::unfit_table(connection, changed) } else { None };
    if let Some(UnfitTable { table_name: table, kind }) = unfit {
        return Err(UniqueError::UnfitTable { table, kind }.into());
    }
    if change.detaches {
        unique_tables::end_generations_of_others(connection, type_id);
    }
    if change.retypes {
        unique_tables::end_generations_of(connection, type_id, changed);
    }
    if change.creates || change.attaches || change.retypes {
        triggers::complete_tables(connection, root, changed, &Purpose::Unique);
        existing::claim_new_tables(connection, type_id, changed)?;
    }
    Ok(())
}

fn tables_dropped() {
    declare::forget_dropped_tables();
    if is_usable() {
        raise(with_search_path(c"pg_catalog, pg_temp", after_drop));
    }
}

fn after_drop() -> Result<(), ClaimsError> {
    let is_any_gone =
        spi::connect(|connection| as_extension_owner(connection, || unique_members::is_any_gone(connection)));
    if is_any_gone != Some(true) {
        return Ok(());
    }
    automatic::send_now()?;
    spi::connect(|connection| {
        as_extension_owner(connection, || {
            follow_renamed(connection);
            unique_tables::end_dropped(connection);
            for type_id in unique_members::forget_gone(connection) {
                unique_tables::end_generations_of_others(connection, type_id);
            }
        })
    });
    Ok(())
}
