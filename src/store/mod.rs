//! All SQL that Rust runs, and the caches of it. Definitions are in `sql/install`.

pub mod capture;
pub mod catalog;
pub mod cell;
pub mod claims;
pub mod expected;
pub mod leases;
pub mod positions;
pub mod records;
pub mod servers;
pub mod verify;
