//! `claims`: globally unique names for applications split into cells.
//!
//! The extension has two sides. `service` runs in the shared database, `cell` in the database of each cell; `holds`
//! runs in either. A call passes through the SQL function of its side, the rules in `claims-model`, the statements
//! beside it or in `citus`, and PostgreSQL behind `pg`. docs/internals/architecture.md has a diagram.
#![deny(unsafe_code)]

mod cell;
mod citus;
mod holds;
mod kernel;
mod service;
mod triggers;
mod worker;

use crate::kernel::error::{raise_altered, raise_updated, refuse_direct_call_of_trigger};
use pgrx::prelude::*;

use crate::citus::{layout, on_node, shard_moves};

::pgrx::pg_module_magic!(name, version);

/// Names the schema for pgrx. sql/install/schema.sql creates it before, or refuses.
#[pg_schema]
mod claims {}

/// The values in shared memory, by side.
static SHARED: [&[&dyn pg::shared::Area]; 2] = [&cell::AREAS, &service::AREAS];

#[pg_guard]
pub extern "C-unwind" fn _PG_init() {
    pg::settings::no_backtraces();
    kernel::settings::define();
    if pg::shared::is_being_preloaded() {
        pg::shared::reserve(&SHARED);
        pg::place::location();
        cell::capture::log::is_preloaded();
    }
    citus::register();
    worker::register();
    pg::background::register_errand(|message| {
        if !service::run_errand(message) {
            cell::epoch::commit_epoch(message);
        }
    });
    pg::cache::register();
    pg::compatibility::register(|| {
        cell::update_wait::await_update();
        let is_final = kernel::version::require_same();
        layout::require_own_tables() && is_final
    });
    pg::statement::register(pg::statement::WhileDistributed {
        settings: layout::SETTINGS,
        check: layout::require_reach,
        before: shard_moves::before_statement,
        after: shard_moves::after_statement,
        failed: shard_moves::failed_statement,
    });
    pg::altered::register(raise_altered);
    pg::retired::register(raise_updated);
    pg::trigger_function::register(pg::trigger_function::TriggerFunctions {
        announce_change: kernel::catalog::announce_change,
        capture_change: holds::requests::capture::capture_change,
        capture_row: cell::capture::rows::capture_row,
        hold_naming: on_node::hold_naming,
        send_automatically: cell::capture::automatic::send_automatically,
        unique_row: cell::unique::rows::capture_row,
        refuse_direct_call: refuse_direct_call_of_trigger,
    });
    pg::event_trigger::register(cell::unique::ddl::EVENT_TRIGGERS);
    pg::foreign::register();
    pg::constraints::register(cell::capture::automatic::before_constraints);
    pg::transaction_end::register(&[
        cell::capture::automatic::HOOKS,
        cell::capture::log::HOOKS,
        holds::requests::HOOKS,
        cell::client::begun_leases::HOOKS,
        cell::wakeup::HOOKS,
        service::durability::HOOKS,
        service::counters::HOOKS,
        service::waiters::HOOKS,
        shard_moves::HOOKS,
        on_node::membership::HOOKS,
        pg::xact::HOOKS,
    ]);
}
