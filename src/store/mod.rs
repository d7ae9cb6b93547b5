//! All SQL that Rust runs, and the caches of it. Definitions are in `sql/install`.

pub mod catalog;
pub mod claims;
pub mod expiring;
pub mod leases;
pub mod records;
pub mod requests;
