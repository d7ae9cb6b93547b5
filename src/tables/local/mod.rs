//! Tables in this database. Index probes with a dirty snapshot find the rows of other open transactions.

mod admin;
mod audit;
mod claim_rows;
mod claims;
mod door;
mod epochs;
mod feed;
mod leases;
mod names;
mod now;
mod positions;
mod records;
mod release;
mod skeletons;
mod transfers;
mod verify;

pub use self::door::Local;
