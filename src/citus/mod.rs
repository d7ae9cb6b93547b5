//! Tables that are distributed over the nodes of a Citus cluster. Most statements are sent to one shard, by a value of the
//! distribution column. So they have a generic plan, run on one node, and raise that node's errors.

mod admin;
pub mod catalog;
mod claims;
mod cluster;
pub mod distribute;
mod distribution;
mod epochs;
mod errors;
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

use self::cluster::Citus;
use crate::kernel::tables::{self, Cluster};
use crate::service;

/// Registers the way to distributed tables, when the library is loaded.
pub fn register() {
    tables::register(Cluster {
        nodes: &Citus,
        is_installed: catalog::is_installed,
        check: || Ok(layout::check_tables()?),
        require_own: layout::require_own_tables,
    });
    service::audit::AUDIT_TABLES.register(&Citus);
    service::claims::CLAIM_TABLES.register(&Citus);
    service::epoch::EPOCH_TABLES.register(&Citus);
    service::feed::FEED_PAGES.register(&Citus);
    service::feed::FEED_TABLES.register(&Citus);
    service::claims::KEY_TABLES.register(&Citus);
    service::claims::LEASE_TABLES.register(&Citus);
    service::names::NAME_TABLES.register(&Citus);
    service::admission::PACE_KEEPER.register(&Citus);
    service::read::RECORD_TABLES.register(&Citus);
    service::names::RELEASE_TABLES.register(&Citus);
    service::admin::ROLE_TABLES.register(&Citus);
    service::claims::SKELETON_TABLES.register(&Citus);
    service::transfer::TRANSFER_TABLES.register(&Citus);
    service::verify::VERIFICATION_TABLES.register(&Citus);
}
