//! Claims and leases in tables of this database. They are read and written without statements where the tables are as the extension has
//! created them.

pub mod claims;
mod keys;
mod leases;
mod positions;
mod rows;
mod skeletons;
mod standing;
mod unleased;
