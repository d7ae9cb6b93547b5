//! Capture: records what a transaction changes in claimed columns, and sends it to the service.

mod adopt;
pub mod attribute;
pub mod automatic;
pub mod conflicts;
pub mod declare;
mod lenient;
pub mod log;
mod own_leases;
pub mod rows;
pub mod send;
mod skip;
mod slow_search;
