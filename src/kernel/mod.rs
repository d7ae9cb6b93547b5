//! The parts of the service's side that every slice of it uses.

pub mod call;
