//! SQL statements that Rust runs, and their caches. `sql/install` has the definitions.

pub mod worker;
