//! Probes for other open transactions at the rows of a key.

use crate::kernel::tables::Local;
use crate::service::claims::tables::{Key, KeyTables};
use crate::service::claims::{leases, skeletons, statements};
use pg::spi::Connection;

impl KeyTables for Local {
    fn contended(&self, _: &Connection, key: Key) -> bool {
        match key {
            Key::Lease(lease) => leases::is_in_flight_in(c"claim_leases", lease),
            Key::Bucket(bucket) => statements::is_in_flight_in(c"claims", bucket),
            Key::Skeleton(skeleton) => skeletons::is_in_flight_in(c"skeletons", skeleton),
        }
    }
}
