//! Statements on the tracked leases that recovery may settle.

use uuid::Uuid;

use crate::cell::tracked::at_service;
use pg::query::{query, record};
use pg::spi::Connection;

record! {
    struct RemainingLease {
        lease: Uuid,
        is_ripe: bool,
    }
}

query! {
    /// Returns leases that a cell tracked at a service up to `oldest_ms` milliseconds ago, at most `most`. Those of at least `ripe_ms`
    /// milliseconds are ripe.
    fn tracked_since(cell_id: i64, service: &str, oldest_ms: i64, ripe_ms: i64, most: i64) -> Vec<RemainingLease> = [Latest] concat!(
        "SELECT t.uuid AS lease, t.created_at <= clock_timestamp() - make_interval(secs => :ripe_ms / 1000.0) AS is_ripe
           FROM claims.cells_outstanding_leases t
          WHERE t.cell_id = :cell_id AND t.created_at >= clock_timestamp() - make_interval(secs => :oldest_ms / 1000.0)
            AND ", at_service!(":service"), "
          LIMIT :most");
}

/// The tracked leases that are not forgotten yet.
pub struct RemainingLeases {
    /// Leases tracked long enough ago that their sessions have had time to settle them.
    pub ripe: Vec<Uuid>,
    /// Whether there are younger ones.
    pub has_unripe: bool,
}

/// Returns the leases that were tracked at a service up to `oldest_ms` milliseconds ago, at most `limit`. Those of at least `ripe_ms`
/// milliseconds are ripe.
pub fn remaining(
    connection: &Connection,
    (cell_id, service): (i64, &str),
    oldest_ms: i64,
    ripe_ms: i64,
    limit: i64,
) -> RemainingLeases {
    let all = tracked_since(connection, cell_id, service, oldest_ms, ripe_ms, limit);
    RemainingLeases {
        has_unripe: all.iter().any(|tracked| !tracked.is_ripe),
        ripe: all.into_iter().filter(|tracked| tracked.is_ripe).map(|tracked| tracked.lease).collect(),
    }
}
