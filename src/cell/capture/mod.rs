//! Capture: what a transaction changes of the values that are claimed, and its way to the service.

mod adopt;
pub mod attribute;
pub mod automatic;
pub mod declare;
mod lenient;
pub mod log;
mod own_leases;
pub mod rows;
pub mod send;
mod skip;
