//! `claims`: globally unique names for applications split into cells.

::pgrx::pg_module_magic!(name, version);

pgrx::extension_sql_file!("../sql/install/schema.sql", name = "schema", bootstrap);
