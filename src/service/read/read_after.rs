//! `read_after`: waits, on a standby, until it shows how a lease ended.

use std::time::{Duration, Instant};

use pgrx::Uuid as PgUuid;
use pgrx::datum::Interval;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::access::given;
use crate::arguments;
use crate::error::ClaimsError;
use crate::pg::spi::{self, View};
use crate::pg::uuid::from_pg_uuid;
use crate::pg::{wait, xact};
use crate::store::service::leases;

/// Between two looks: at first, and at most.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn read_after(lease_uuid: Option<PgUuid>, timeout: default!(Option<Interval>, "'1 s'")) -> Result<bool, ErrorReport> {
    Ok(has_ended_within(lease_uuid, timeout)?)
}

fn has_ended_within(lease: Option<PgUuid>, timeout: Option<Interval>) -> Result<bool, ClaimsError> {
    let lease = from_pg_uuid(given(lease, "lease_uuid")?);
    let timeout = arguments::span(given(timeout, "timeout")?, "timeout")?.as_micros();
    let deadline = Instant::now() + Duration::from_micros(u64::try_from(timeout).unwrap_or(u64::MAX));
    // What the transaction would not see later must not be promised: it has one snapshot, and that does not change by waiting.
    let view = if xact::keeps_one_snapshot() { View::Caller } else { View::Latest };
    let mut pause = SHORTEST_PAUSE;
    loop {
        let known = spi::connect(|connection| leases::known(connection, &[lease], view).pop());
        if known.is_some_and(|known| known.outcome.is_some()) {
            return Ok(true);
        }
        if xact::keeps_one_snapshot() {
            return Err(ClaimsError::NotInSnapshot { lease });
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        wait::sleep(pause.min(left).max(SHORTEST_PAUSE));
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
