//! What runs in the shared database: leases, reading, and the service's half of verification.

mod grants;
pub mod lease;
pub mod read;
pub mod verify;
