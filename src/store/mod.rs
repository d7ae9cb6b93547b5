//! SQL statements that Rust runs, and their caches, by side. `sql/install` has the definitions.

pub mod admin_log;
pub mod catalog;
pub mod cell;
pub mod namings;
pub mod pass_log;
pub mod worker;
