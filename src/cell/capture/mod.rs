//! Capture: what a transaction changes of the values that are claimed, and its way to the service.

pub mod automatic;
pub mod declare;
pub mod log;
mod own_leases;
pub mod rows;
pub mod send;
