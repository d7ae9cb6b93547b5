//! Statements that work for local and distributed tables.

pub mod admin;
pub mod audit;
pub mod claims;
pub mod epochs;
pub mod feed;
pub mod ids;
pub mod lease_details;
pub mod leases;
pub mod limits;
pub mod modes;
pub mod names;
pub mod pace;
pub mod skeletons;
pub mod transfers;
pub mod verification_slots;
pub mod verify;
