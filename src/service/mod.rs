//! What runs in the shared database: leases over the seam of their storage, reading, administration, and the service's half
//! of verification.

mod admin;
pub mod admission;
pub mod counters;
pub mod durability;
pub mod engine;
mod epoch;
pub mod feed;
pub mod floor;
mod grants;
pub mod lease;
pub mod metrics;
pub mod naming;
mod places;
pub mod read;
pub mod throttle;
mod transfer;
pub mod verify;

use crate::pg::shared::Area;

/// What lies in shared memory.
pub static AREAS: [&dyn Area; 5] =
    [&throttle::PACES, &counters::CELLS, &counters::CHECKS, &floor::FLOORS, &floor::PHASES];
