//! The two shorter holds: expiring claims, and requests that are processed under row locks. They work in any database.

pub mod errors;
pub mod expiring;
pub mod requests;
