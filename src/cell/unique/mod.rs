//! Unique across tables of one database: `add_unique`.
//!
//! A value is claimed for the cell of this database, like the names of claimed columns in automatic mode, with the generation of its table as
//! source. So DDL on a table gives up all of its values at once, by ending the generation.

mod columns;
pub mod ddl;
mod declare;
mod duplicates;
mod errors;
mod existing;
pub mod rows;
mod truncate;

::pgrx::extension_sql_file!(
    "../../../sql/install/cell/unique.sql",
    name = "unique",
    requires = [
        "automatic_here",
        "declarations",
        cell::unique::declare::declare_unique,
        cell::unique::declare::drop_unique,
        cell::unique::duplicates::find_duplicates,
        cell::unique::truncate::renew_generations
    ]
);
