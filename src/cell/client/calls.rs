//! The calls and connections of this server's sessions, for metrics.

use std::collections::BTreeSet;

use claims_model::queue::ServiceKey;
use pgrx::pg_sys::Oid;

use super::places::{self, PLACES};
use super::turns::TURNS;
use pg::foreign;
use pg::prelude::*;

/// Returns a row for each service of this database that was called, and none if the library is not preloaded. The columns:
///
/// - `calling`: calls that are being made
/// - `waiting`: calls that wait for their turns
/// - `waiting_for_place`: calls that wait for places for connections
/// - `connections`: open connections
/// - `refused_connections`: connections that the service has refused for want of places, since the start of the server
/// - `failed_calls`: calls that failed with 53300, since then
#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn service_calls() -> TableIterator<
    'static,
    (
        name!(service, String),
        name!(calling, i64),
        name!(waiting, i64),
        name!(waiting_for_place, i64),
        name!(connections, i64),
        name!(refused_connections, i64),
        name!(failed_calls, i64),
    ),
> {
    let own = places::key(Oid::INVALID);
    let is_own = |key: ServiceKey| key & !u64::from(u32::MAX) == own;
    let called = TURNS.read(|turns| turns.services(is_own)).unwrap_or_default();
    let connected = PLACES.read(|places| places.services(is_own)).unwrap_or_default();
    let known: BTreeSet<ServiceKey> = called.into_iter().chain(connected).collect();
    // Servers that were dropped have no name, and are left out.
    let row = |key: ServiceKey| {
        let service = foreign::server_name(Oid::from(u32::try_from(key & u64::from(u32::MAX)).ok()?))?;
        let (calling, waiting) = TURNS.read(|turns| turns.load(key)).unwrap_or_default();
        let (for_place, numbers) = PLACES.read(|places| (places.waiting(key), places.numbers(key))).unwrap_or_default();
        let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        Some((
            service,
            calling as i64,
            waiting as i64,
            for_place as i64,
            count(numbers.connections),
            count(numbers.refused),
            count(numbers.failed),
        ))
    };
    TableIterator::new(known.into_iter().filter_map(row).collect::<Vec<_>>())
}
