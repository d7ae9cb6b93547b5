//! `release_records` and `remove_cell`: a cell that is gone for good.

use std::convert::Infallible;

use claims_model::lookalike::looks;
use claims_model::mode::Need;
use claims_model::{BadInput, Bucket, NOBODY, Problem};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use super::cells::take_away;
use crate::access::given;
use crate::acts::Act;
use crate::distribution;
use crate::error::{AccessError, AdminError, ClaimsError, warn_of_open_cell};
use crate::pg::clock::Moment;
use crate::pg::settings::LockWaits;
use crate::pg::spi::{self, Connection};
use crate::service::admission;
use crate::service::engine;
use crate::service::feed;
use crate::store::catalog::{self, Catalog};
use crate::store::service::admin::{self, Leftovers};
use crate::store::service::changes::{Change, ChangeSet};
use crate::store::service::distributed::release as distributed_release;
use crate::store::service::looks as store;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn release_records(
    cell_id: Option<i64>,
    reason: Option<String>,
    max_results: default!(Option<i32>, 10000),
    dry_run: default!(Option<bool>, false),
) -> Result<i64, ErrorReport> {
    Ok(release(cell_id, reason, max_results, dry_run)?)
}

/// The most that one call releases.
const MAX_RELEASED: i32 = 1_000_000;
/// Milliseconds to wait for a lock on another node: rows that are locked are passed over, so it is for relation extension.
const PATIENCE: i64 = 1000;

fn release(
    cell_id: Option<i64>,
    reason: Option<String>,
    max_results: Option<i32>,
    dry_run: Option<bool>,
) -> Result<i64, ClaimsError> {
    let act = Act::begin("release_records", reason)?;
    let cell_id = given(cell_id, "cell_id")?;
    let max_results = given(max_results, "max_results")?;
    if !(1..=MAX_RELEASED).contains(&max_results) {
        return Err(BadInput::new("max_results", Problem::OutOfRange { allowed: "1 to 1000000" }).into());
    }
    if cell_id == NOBODY {
        return Err(AccessError::UnknownCell { cell_id }.into());
    }
    if given(dry_run, "dry_run")? {
        return spi::connect(|connection| Ok(admin::count_claims(connection, cell_id)));
    }
    let act = act.with("cell_id", cell_id).with("max_results", max_results);
    let (released, is_open) = act.perform_counted(|connection| {
        let catalog = catalog::current(connection);
        let is_open =
            catalog.cells.contains_key(&cell_id) && admission::mode_allows(&catalog, cell_id, Need::Begin).is_ok();
        let released = release_some(connection, &catalog, cell_id, max_results.into());
        Ok(((released, is_open), vec![("released", released)]))
    })?;
    if is_open {
        warn_of_open_cell(cell_id);
    }
    Ok(released)
}

/// Releases claims, and the looks of those whose types mind them. The change feed tells that they are free.
fn release_some(connection: &Connection, catalog: &Catalog, cell_id: i64, max_results: i64) -> i64 {
    if distribution::is_spread() {
        return release_at_several(connection, catalog, cell_id, max_results);
    }
    if catalog.types.mind_looks() {
        let released = admin::release_and_tell(connection, cell_id, max_results);
        return finish(connection, catalog, cell_id, &released);
    }
    if !feed::is_on() {
        return admin::release_claims(connection, cell_id, max_results);
    }
    let released = admin::release_into_feed(connection, cell_id, max_results);
    if released > 0 {
        feed::told(connection);
    }
    released
}

/// The same on several nodes, where statements are one only within a subtransaction.
fn release_at_several(connection: &Connection, catalog: &Catalog, cell_id: i64, max_results: i64) -> i64 {
    let _waits = LockWaits::limit(PATIENCE);
    let Ok(count) = engine::bounded(connection, || {
        let released = distributed_release::release(connection, cell_id, max_results);
        Ok::<_, Infallible>(finish(connection, catalog, cell_id, &released))
    });
    count
}

/// What goes with claims that were released; returns how many they were.
fn finish(connection: &Connection, catalog: &Catalog, cell_id: i64, released: &[Bucket]) -> i64 {
    store::free(connection, &looks(released.iter(), &catalog.types));
    let set = ChangeSet { change: Change::Destroy(cell_id), cause: None, buckets: released.iter().collect() };
    feed::tell(connection, &[set], Moment::now());
    released.len() as i64
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn remove_cell(cell_id: Option<i64>, reason: Option<String>) -> Result<(), ErrorReport> {
    Ok(remove(cell_id, reason)?)
}

fn remove(cell_id: Option<i64>, reason: Option<String>) -> Result<(), ClaimsError> {
    let act = Act::begin("remove_cell", reason)?;
    let cell_id = given(cell_id, "cell_id")?;
    act.with("cell_id", cell_id).perform(|connection| {
        // Under this lock nobody else registers it, or gives its role another cell.
        admin::lock_grants(connection);
        let Some(role) = admin::role_of_cell(connection, cell_id) else {
            return Err(AccessError::UnknownCell { cell_id }.into());
        };
        if let Some(Leftovers { claims, leases, transfers }) = admin::leftovers(connection, cell_id) {
            return Err(AdminError::CellInUse { cell_id, claims, leases, transfers }.into());
        }
        admin::remove_cell(connection, cell_id);
        take_away(connection, role);
        Ok(())
    })
}
