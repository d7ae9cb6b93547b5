//! All SQL that Rust runs, and the caches of it. Definitions are in `sql/install`.

pub mod capture;
pub mod catalog;
pub mod cell;
pub mod claims;
pub mod leases;
pub mod records;
pub mod servers;
