//! The implementation of [`Tables`] for tables in this database.

use crate::tables::door::{Key, KeyTables, Tables};
use crate::tables::shared::{claims, leases, pace, skeletons, verification_slots};
use pg::clock::Moment;
use pg::spi::Connection;

/// The tables in this database.
pub struct Local;

impl Tables for Local {
    fn counts_begins(&self, _: &Connection) -> bool {
        pace::is_counted()
    }

    fn pass_pace(&self, _: &Connection, cell_id: i64, per_second: i32, records: i64) -> Result<(), Moment> {
        pace::pass(cell_id, per_second, records)
    }

    fn hold_verification_slot(&self, connection: &Connection, cell_id: i64, seconds: i32, limit: i64) -> bool {
        verification_slots::hold(connection, cell_id, seconds, limit)
    }
}

impl KeyTables for Local {
    fn contended(&self, _: &Connection, key: Key) -> bool {
        match key {
            Key::Lease(lease) => leases::is_in_flight_in(c"claim_leases", lease),
            Key::Bucket(bucket) => claims::is_in_flight_in(c"claims", bucket),
            Key::Skeleton(skeleton) => skeletons::is_in_flight_in(c"skeletons", skeleton),
        }
    }
}
