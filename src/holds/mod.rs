//! The two shorter holds: expiring claims, and requests that are worked off under row locks. They work in any database.

pub mod expiring;
pub mod requests;
