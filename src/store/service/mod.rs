//! Statements on the tables of the service.

pub mod claims;
pub mod leases;
pub mod records;
pub mod verify;
