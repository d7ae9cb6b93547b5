//! Statements on tables that are spread over the nodes of a Citus cluster. Most lead to one shard, by a value of the column that
//! its table is spread by: so they have a generic plan, are sent to one node, and their errors are those of that node.

pub mod changes;
pub mod claims;
pub mod in_flight;
pub mod keys;
pub mod leases;
pub mod looks;
pub mod nodes;
pub mod profiles;
pub mod records;
pub mod release;
pub mod transfers;
pub mod verify;
