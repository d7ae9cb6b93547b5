//! Capture: records what a transaction changes in claimed columns, and sends it to the service.

mod adopt;
pub mod attribute;
pub mod automatic;
mod batch;
pub mod choose;
pub mod conflicts;
pub mod declare;
pub mod enforcement;
pub mod errors;
mod leases;
pub mod log;
mod observations;
mod observe;
mod observed_rows;
mod own_database;
mod own_leases;
pub mod pins;
mod refused_save;
pub mod rows;
pub mod send;
mod skip;
mod slow_search;
mod wanted_claims;
