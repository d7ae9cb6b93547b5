//! Writing changes down, in the transaction that makes them. Off, that is one look at a setting.

use std::convert::Infallible;

use claims_model::types::Kind;
use claims_model::{Bucket, Types, id};
use serde_json::Value;
use uuid::Uuid;

use crate::distribution;
use crate::pg::clock::Moment;
use crate::pg::settings::LockWaits;
use crate::pg::spi::Connection;
use crate::service::engine::{self, EndedLease};
use crate::settings;
use crate::store::service::changes::{self, Change, ChangeSet};
use crate::store::service::distributed::changes as distributed_changes;
use crate::store::service::leases::Ending;

/// Whether changes are to be written down.
pub fn is_on() -> bool {
    settings::change_feed()
}

/// Writes down what was changed, in this order.
pub fn tell(connection: &Connection, sets: &[ChangeSet], at: Moment) {
    if is_on() && sets.iter().any(|set| !set.buckets.is_empty()) {
        if distribution::is_spread() {
            tell_apart(connection, sets, at)
        } else {
            changes::tell(connection, sets, at)
        }
        told(connection);
    }
}

/// Milliseconds to wait for a lock on the node of the feed, where no row is in anybody's way.
const PATIENCE: i64 = 100;

/// In a subtransaction of its own, as statements on other nodes need.
fn tell_apart(connection: &Connection, sets: &[ChangeSet], at: Moment) {
    let _waits = LockWaits::limit(PATIENCE);
    let Ok(()) = engine::bounded(connection, || {
        distributed_changes::tell(connection, sets, at);
        Ok::<_, Infallible>(())
    });
}

/// Changes were written down.
pub fn told(connection: &Connection) {
    if settings::notify_changes() {
        changes::notify(connection);
    }
}

/// Leases of a cell have ended. One that was rolled back changes no owner: what it was to create never had one. Where the tables are
/// spread, the caller has begun a subtransaction and limited its waits.
pub fn tell_settled(connection: &Connection, cell_id: i64, leases: &[EndedLease], ending: Ending, at: Moment) {
    if ending == Ending::Rollback || !is_on() {
        return;
    }
    let mut sets = Vec::with_capacity(leases.len());
    for EndedLease { uuid, held } in leases {
        let mut add = |change, buckets: Vec<_>| {
            if !buckets.is_empty() {
                sets.push(ChangeSet { change, cause: Some(*uuid), buckets });
            }
        };
        add(Change::Destroy(cell_id), held.destroys.iter().collect());
        add(Change::Replace(cell_id), held.replaces.iter().map(|claim| &claim.bucket).collect());
        add(Change::Create(cell_id), held.creates.iter().collect());
    }
    if sets.is_empty() {
        return;
    }
    if distribution::is_spread() {
        distributed_changes::tell(connection, &sets, at);
    } else {
        changes::tell(connection, &sets, at);
    }
    told(connection);
}

/// An administrator has rolled a lease back. Its cell may have saved the names that it was to create, and readers may have seen them:
/// they are told that nobody has these names, although nobody was told that the cell got them.
pub fn tell_freed(connection: &Connection, cell_id: i64, lease: Uuid, freed: &[Value], types: &Types) {
    if !is_on() {
        return;
    }
    let bucket = |record: &Value| {
        let bucket = &record["bucket"];
        let bucket_type = id::type_from_text(bucket["type"].as_str()?, Kind::Bucket, types).ok()?;
        Some(Bucket { bucket_type, value: bucket["value"].as_str()?.to_owned().into() })
    };
    let buckets: Vec<Bucket> = freed.iter().filter_map(bucket).collect();
    let set = ChangeSet { change: Change::Destroy(cell_id), cause: Some(lease), buckets: buckets.iter().collect() };
    tell(connection, &[set], Moment::now());
}
