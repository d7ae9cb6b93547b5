//! `claims`: globally unique names for applications split into cells.
//!
//! The way of a call: the SQL boundary in `lease` or `read`, the rules in `claims-model`, the statements in `store`,
//! Postgres behind `pg`. docs/architecture.md has the picture.
#![deny(unsafe_code)]

mod access;
mod arguments;
mod capture;
mod cell;
mod error;
mod expiring;
mod lease;
#[macro_use]
mod pg;
mod read;
mod request;
mod settings;
mod store;
mod verify;

use pgrx::prelude::*;

::pgrx::pg_module_magic!(name, version);

extension_sql_file!("../sql/install/schema.sql", name = "schema", bootstrap);
extension_sql_file!("../sql/install/tables.sql", name = "tables", requires = ["schema"]);
extension_sql_file!("../sql/install/admin.sql", name = "admin", requires = ["tables"]);
extension_sql_file!("../sql/install/check.sql", name = "check", requires = ["tables"]);
extension_sql_file!(
    "../sql/install/cell.sql",
    name = "cell",
    requires = [
        "admin",
        cell::track::track_lease,
        cell::track::forget_leases,
        cell::judge::judge_leases,
        cell::judge::purge_fences,
        cell::reconcile::reconcile
    ]
);
extension_sql_file!(
    "../sql/install/verify.sql",
    name = "verify",
    requires = [
        "admin",
        "capture",
        verify::digest::digest_records,
        verify::digest::digest_expected,
        verify::expected::expected_records,
        verify::records::verify_records,
        verify::whole::verify
    ]
);
extension_sql_file!(
    "../sql/install/share.sql",
    name = "share",
    requires = ["verify", "expiring", verify::begin::begin_verification, verify::share::verify_share]
);
extension_sql_file!("../sql/install/capture.sql", name = "capture", requires = ["admin", "cell"]);
extension_sql_file!(
    "../sql/install/declare.sql",
    name = "declare",
    requires = [
        "admin",
        "capture",
        capture::declare::spell_out_condition,
        capture::declare::require_owner,
        capture::declare::change_capture_triggers,
        capture::declare::change_request_triggers,
        capture::automatic::require_service,
        capture::automatic::require_cell,
        capture::send::pending_batch,
        capture::send::begin_pending,
        capture::send::finish
    ]
);
extension_sql_file!("../sql/install/grant_worker.sql", name = "grant_worker", requires = ["admin"]);
extension_sql_file!(
    "../sql/install/functions.sql",
    name = "functions",
    requires = ["admin", "check", "cell", "declare", "verify", "share", "expiring", "requests"],
    finalize
);

/// Names the schema for pgrx; sql/install/schema.sql has created it by then, or refused.
#[pg_schema]
mod claims {}

#[pg_guard]
pub extern "C-unwind" fn _PG_init() {
    pg::settings::no_backtraces();
    settings::define();
    pg::cache::register();
    pg::transaction_end::register(&[capture::log::HOOKS, request::HOOKS]);
}
