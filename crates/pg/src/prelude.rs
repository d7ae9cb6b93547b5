//! Imports for files with SQL functions: the macros of pgrx, and the types of arguments and results.

pub use pgrx::Uuid as PgUuid;
pub use pgrx::pg_sys::panic::ErrorReport;
pub use pgrx::prelude::*;
