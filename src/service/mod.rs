//! What runs in the shared database: leases, reading, and the service's half of verification.

pub mod lease;
pub mod read;
pub mod verify;
