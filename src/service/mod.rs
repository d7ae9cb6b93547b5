//! What runs in the shared database: leases over the seam of their storage, reading, administration, and the service's half
//! of verification.

mod admin;
pub mod admission;
pub mod engine;
mod grants;
pub mod lease;
pub mod naming;
pub mod read;
pub mod verify;
