//! Claims and the leases that hold them, as they are stored: what beginning, settling, reading, verifying and moving have in common.

mod buckets;
pub mod kept;
pub mod leases;
pub mod local;
mod rows;
pub mod skeletons;
pub mod statements;
mod tables;

pub use self::buckets::*;
pub use self::leases::{EndedRow, Ending, ExistingLease, LeaseEnding, ListedLease, NewLease};
pub use self::rows::*;
pub use self::skeletons::{Bearers, Bearing, SkeletonChange};
pub use self::tables::*;
