//! The parts that several slices of both sides use.

pub mod access;
pub mod admin_action;
pub mod admin_log;
pub mod arguments;
pub mod attribution;
pub mod audit_id;
pub mod call;
pub mod catalog;
pub mod cell_slots;
pub mod direct;
pub mod error;
pub mod limits;
pub mod modes;
pub mod namings;
pub mod pace;
pub mod pass_log;
pub mod refusals;
pub mod schema;
pub mod settings;
pub mod sql_text;
pub mod tables;
pub mod unique_types;
pub mod version;

::pgrx::extension_sql_file!("../../sql/install/schema.sql", name = "schema", bootstrap);
::pgrx::extension_sql_file!("../../sql/install/admin_log.sql", name = "admin_log", requires = ["tables"]);
::pgrx::extension_sql_file!(
    "../../sql/install/passes.sql",
    name = "passes",
    requires = ["tables", cell::reading::may_read_sources]
);
::pgrx::extension_sql_file!("../../sql/install/functions.sql", name = "functions", finalize);
