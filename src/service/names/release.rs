//! `release_records`: releases the claims of a cell that is gone for good.

use std::convert::Infallible;

use claims_model::lookalike::skeletons;
use claims_model::mode::Need;
use claims_model::{BadInput, Bucket, NOBODY, Problem};

use super::errors::warn_of_open_cell;
use super::statements;
use super::tables::RELEASE_TABLES;
use crate::kernel::admin_action::AdminAction;
use crate::kernel::arguments::required;
use crate::kernel::attribution;
use crate::kernel::call::{CellCall, answer};
use crate::kernel::error::AccessError;
use crate::kernel::settings::{self, Audit};
use crate::service::audit::AuditedName;
use crate::service::claims::{OwnedName, SKELETON_TABLES, SkeletonChange};
use crate::service::feed::{self, Change, ChangeSet};
use crate::service::quarantine::{ends, keep_skeletons};
use crate::service::{admission, audit};
use pg::clock::Moment;
use pg::prelude::*;
use pg::settings::LockWaits;
use pg::spi;

#[pg_extern(name = "release_records", schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn release_records_2(
    cell_id: Option<i64>,
    reason: Option<String>,
    max_results: default!(Option<i32>, 10000),
    dry_run: default!(Option<bool>, false),
    quarantine: default!(Option<bool>, true),
) -> Result<i64, ErrorReport> {
    answer(|| {
        let action = AdminAction::begin("release_records", reason)?;
        let cell_id = required(cell_id, "cell_id")?;
        let max_results = required(max_results, "max_results")?;
        let quarantine = required(quarantine, "quarantine")?;
        if !(1..=MAX_RELEASED).contains(&max_results) {
            return Err(BadInput::new("max_results", Problem::OutOfRange { allowed: "1 to 1000000" }).into());
        }
        if cell_id == NOBODY {
            return Err(AccessError::UnknownCell { cell_id }.into());
        }
        if required(dry_run, "dry_run")? {
            return spi::connect(|connection| Ok(statements::count_claims(connection, cell_id)));
        }
        let action = action.with("cell_id", cell_id).with("max_results", max_results);
        let action = if quarantine { action } else { action.with("quarantine", false) };
        let (released, is_open) = action.perform_counted(|call| {
            let call = &call.of_cell(cell_id);
            let catalog = &call.catalog;
            let is_open =
                catalog.cells.contains_key(&cell_id) && admission::mode_allows(catalog, cell_id, Need::Begin).is_ok();
            let released = release_some(call, max_results.into(), quarantine);
            Ok(((released, is_open), vec![("released", released)]))
        })?;
        if is_open {
            warn_of_open_cell(cell_id);
        }
        Ok(released)
    })
}

/// Maximum number of claims that one call releases.
const MAX_RELEASED: i32 = 1_000_000;
/// Limit for waiting for a lock on another node. Locked rows are skipped, so the wait is for relation extension.
const LOCK_TIMEOUT_MS: i64 = 1000;

/// Releases claims, and the skeletons of those whose types refuse confusable names. Writes them to the change feed as freed.
fn release_some(call: &CellCall, max_results: i64, quarantine: bool) -> i64 {
    let ends = if quarantine { ends(&call.catalog, Moment::now()) } else { Vec::new() };
    // The audit log needs the names.
    if ends.is_empty()
        && !call.catalog.types.refuse_confusables()
        && settings::audit() == Audit::Off
        && let Some(released) =
            RELEASE_TABLES.of(call).release_in_bulk(call.connection, call.cell_id, max_results, feed::is_on())
    {
        if released > 0 && feed::is_on() {
            feed::notify_readers(call.connection);
        }
        return released;
    }
    let _waits = call.tables.needs_subtransactions().then(|| LockWaits::limit(LOCK_TIMEOUT_MS));
    let Ok(count) = call.bounded(|| {
        let released = RELEASE_TABLES.of(call).release(call.connection, call.cell_id, max_results, &ends);
        Ok::<_, Infallible>(finish(call, &released, &ends))
    });
    count
}

/// Frees the skeletons of released claims, and writes them to the change feed. Returns their number.
fn finish(call: &CellCall, released: &[OwnedName], ends: &[(i32, Moment)]) -> i64 {
    SKELETON_TABLES.of(call).change_skeletons(
        call.connection,
        SkeletonChange::Free,
        &skeletons(released.iter().map(|name| &name.bucket), &call.catalog.types),
    );
    let is_kept = |bucket: &&Bucket| ends.iter().any(|(of_type, _)| *of_type == bucket.bucket_type);
    keep_skeletons(call, &call.catalog.types, released.iter().map(|name| &name.bucket).filter(is_kept));
    let (change, buckets) = (Change::Destroy(call.cell_id), released.iter().map(|name| &name.bucket).collect());
    let sets = [ChangeSet { change, cause: None, buckets, attribution: attribution::of_session() }];
    feed::tell(call, &sets, Moment::now());
    let freed = released.iter().map(|OwnedName { bucket, owner }| {
        let old = Some(owner.owner());
        AuditedName { op: "destroy", bucket, old, new: None }
    });
    audit::changed(call, None, "released", &freed.collect::<Vec<_>>());
    released.len() as i64
}
