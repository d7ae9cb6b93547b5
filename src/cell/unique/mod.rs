//! Unique across tables of one database: `add_unique`.
//!
//! A value is claimed for the cell of this database, like the names of claimed columns in automatic mode, with the generation of its table as
//! source. So DDL on a table gives up all of its values at once, by ending the generation.

mod columns;
mod compare;
pub mod ddl;
mod declare;
mod duplicates;
mod errors;
mod existing;
mod import;
pub mod rows;
mod table_values;
mod truncate;

::pgrx::extension_sql_file!(
    "../../../sql/install/cell/unique.sql",
    name = "unique",
    requires = [
        "automatic_here",
        "declarations",
        "import",
        cell::unique::declare::declare_unique,
        cell::unique::declare::drop_unique,
        cell::unique::duplicates::find_duplicates,
        cell::unique::import::begin_unique_import,
        cell::unique::import::import_unique_step,
        cell::unique::truncate::renew_generations
    ]
);
