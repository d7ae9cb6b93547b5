//! The parts of the service's side that every slice of it uses.

pub mod call;

::pgrx::extension_sql_file!("../../sql/install/schema.sql", name = "schema", bootstrap);
::pgrx::extension_sql_file!("../../sql/install/admin_log.sql", name = "admin_log", requires = ["tables"]);
::pgrx::extension_sql_file!(
    "../../sql/install/passes.sql",
    name = "passes",
    requires = ["tables", cell::reading::may_read_sources]
);
::pgrx::extension_sql_file!("../../sql/install/functions.sql", name = "functions", finalize);
