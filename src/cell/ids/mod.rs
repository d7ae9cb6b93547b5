//! Ids for a cell's sequences: ranges that the service leases, of which no other cell gets an id.

pub mod declare;
mod errors;
pub mod refill;
