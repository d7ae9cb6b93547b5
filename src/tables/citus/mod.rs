//! Tables that are distributed over the nodes of a Citus cluster. Most statements are sent to one shard, by a value of the
//! distribution column. So they have a generic plan, run on one node, and raise that node's errors.

mod admin;
pub mod catalog;
mod claims;
pub mod distribute;
mod door;
mod epochs;
pub mod extension;
pub mod feed;
mod feed_pages;
mod in_flight;
mod keys;
pub mod layout;
mod leases;
mod names;
mod nodes;
pub mod on_node;
mod records;
mod release;
pub mod shard_moves;
mod shards;
mod skeletons;
mod transfer_locations;
mod transfers;
mod two_phase;
mod verify;

pub use self::door::Citus;
