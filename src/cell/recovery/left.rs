//! Settling leases of recently committed transactions whose sessions have not settled them, because they are busy or ended.

use std::time::Duration;

use super::ground::Ground;
use super::unreachable;
use crate::cell::client::Service;
use crate::cell::client::leases::Settled;
use crate::store::cell::tracked;
use crate::store::worker::{self, Left};

/// The time that a session has to settle its own leases.
const GRACE: Duration = Duration::from_millis(200);
/// Older ones, orphans for example, are left to passes of recovery.
const OLDEST: Duration = Duration::from_secs(300);
/// How long the service may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Leases in one call.
const AT_ONCE: i64 = 1000;

/// Commits the tracked leases of a cell at the service, and forgets them here. Returns whether nothing is left, for now.
pub fn settle<G: Ground>(ground: &G, cell_id: i64, server: &str) -> Result<bool, G::Error> {
    let milliseconds = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    let (Left { ripe, has_unripe }, service) = ground.here(|connection| {
        let left = worker::left(connection, cell_id, milliseconds(OLDEST), milliseconds(GRACE), AT_ONCE);
        let service = if left.ripe.is_empty() { None } else { Some(Service::ahead(connection, server, cell_id)?) };
        Ok((left, service))
    })?;
    let Some(service) = service else { return Ok(!has_unripe) };
    let settled = ground.there(|| service.settle_leases(cell_id, &ripe, &[], PATIENCE).map_err(unreachable))?;
    let is_committed = |settled: &&Settled| settled.outcome.as_deref() == Some("committed");
    let committed: Vec<_> = settled.iter().filter(is_committed).map(|one| one.lease).collect();
    ground.here(|connection| {
        tracked::forget(connection, &committed, Some(&[cell_id]));
        Ok(())
    })?;
    // Busy leases are tried again in a moment; recovery reports orphans.
    Ok(!has_unripe && ripe.len() < AT_ONCE as usize)
}
