//! Records changes, in the transaction that makes them. If the feed is off, that costs one look at a setting.

use std::convert::Infallible;

use claims_model::types::Kind;
use claims_model::{Bucket, id};
use serde_json::Value;
use uuid::Uuid;

use super::tables::{Change, ChangeSet, FEED_TABLES};
use crate::kernel::call::{Call, CellCall};
use crate::kernel::{attribution, settings};
use crate::service::claims::{EndedLease, Ending};
use pg::clock::Moment;
use pg::query::query;
use pg::settings::LockWaits;
use pg::spi::Connection;

query! {
    /// Notifies the listeners on this node. PostgreSQL sends equal notifications of a transaction only once.
    fn notify() = [Statement Anywhere] "SELECT pg_notify('claims_changes', '')";
}

/// Returns whether changes are recorded.
pub fn is_on() -> bool {
    settings::change_feed()
}

/// Records changes, in this order.
pub fn tell(call: &Call, sets: &[ChangeSet], at: Moment) {
    if is_on() && sets.iter().any(|set| !set.buckets.is_empty()) {
        let _waits = call.tables.needs_subtransactions().then(|| LockWaits::limit(LOCK_TIMEOUT_MS));
        let Ok(()) = call.bounded(|| {
            FEED_TABLES.of(call).tell(call.connection, sets, at);
            Ok::<_, Infallible>(())
        });
        notify_readers(call.connection);
    }
}

/// Limit for waiting for a lock on the node of the feed. The rows are new, so the wait is for relation extension.
const LOCK_TIMEOUT_MS: i64 = 100;

/// Sends a NOTIFY if that is configured. Called after changes were recorded.
pub fn notify_readers(connection: &Connection) {
    if settings::notify_changes() {
        notify(connection);
    }
}

/// Records the changes of settled leases. A rollback changes no owner: its creates never had one. If the tables are distributed,
/// the caller has begun a subtransaction and limited its waits.
pub fn tell_ended(call: &CellCall, leases: &[EndedLease], ending: Ending, at: Moment) {
    let cell_id = call.cell_id;
    if ending == Ending::Rollback || !is_on() {
        return;
    }
    let mut sets = Vec::with_capacity(leases.len());
    for EndedLease { uuid, held, attribution } in leases {
        let mut add = |change, buckets: Vec<_>| {
            if !buckets.is_empty() {
                sets.push(ChangeSet { change, cause: Some(*uuid), buckets, attribution: attribution.clone() });
            }
        };
        add(Change::Destroy(cell_id), held.destroys.iter().collect());
        add(Change::Replace(cell_id), held.replaces.iter().map(|claim| &claim.bucket).collect());
        add(Change::Create(cell_id), held.creates.iter().collect());
    }
    if sets.is_empty() {
        return;
    }
    FEED_TABLES.of(call).tell(call.connection, &sets, at);
    notify_readers(call.connection);
}

/// Records the names that an administrator freed by rolling a lease back. The cell may have saved these names and readers may
/// have seen them. So the feed says that they are free, although it never said that the cell got them.
pub fn tell_freed(call: &CellCall, lease: Uuid, freed: &[Value]) {
    if !is_on() {
        return;
    }
    let bucket = |record: &Value| {
        let bucket = &record["bucket"];
        let bucket_type = id::type_from_text(bucket["type"].as_str()?, Kind::Bucket, &call.catalog.types).ok()?;
        Some(Bucket { bucket_type, value: bucket["value"].as_str()?.to_owned().into() })
    };
    let buckets: Vec<Bucket> = freed.iter().filter_map(bucket).collect();
    let (change, buckets) = (Change::Destroy(call.cell_id), buckets.iter().collect());
    let set = ChangeSet { change, cause: Some(lease), buckets, attribution: attribution::of_session() };
    tell(call, &[set], Moment::now());
}
