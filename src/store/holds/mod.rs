//! Statements on expiring claims and requests.

pub mod captured_tables;
pub mod expiring;
pub mod requests;
