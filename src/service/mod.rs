//! What runs in the shared database: leases, reading, administration, and the service's half of verification.

mod admin;
mod grants;
pub mod lease;
pub mod read;
pub mod verify;
