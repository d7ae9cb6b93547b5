//! Statements on the tables of the service.

pub mod admin;
pub mod claims;
pub mod grants;
pub mod leases;
pub mod records;
pub mod verify;
