//! `claims`: globally unique names for applications split into cells.
//!
//! The way of a call: the SQL boundary in `lease` or `read`, the rules in `claims-model`, the statements in `store`,
//! Postgres behind `pg`. docs/architecture.md has the picture.
#![deny(unsafe_code)]

mod access;
mod arguments;
mod error;
mod expiring;
mod lease;
#[macro_use]
mod pg;
mod read;
mod request;
mod settings;
mod store;

use pgrx::prelude::*;

::pgrx::pg_module_magic!(name, version);

extension_sql_file!("../sql/install/schema.sql", name = "schema", bootstrap);
extension_sql_file!("../sql/install/tables.sql", name = "tables", requires = ["schema"]);
extension_sql_file!("../sql/install/admin.sql", name = "admin", requires = ["tables"]);
extension_sql_file!("../sql/install/check.sql", name = "check", requires = ["tables"]);
extension_sql_file!("../sql/install/grant_worker.sql", name = "grant_worker", requires = ["admin"]);
extension_sql_file!(
    "../sql/install/functions.sql",
    name = "functions",
    requires = ["admin", "check", "expiring", "requests"],
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
    request::register();
}
