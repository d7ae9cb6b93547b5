//! `read_after`: waits on a standby until it shows the outcome of a lease.

use std::time::{Duration, Instant};

use claims_model::backoff::Backoff;

use super::errors::ReadError;
use crate::kernel::arguments::{self, required};
use crate::kernel::call::answer;
use crate::service::claims::leases;
use pg::prelude::*;
use pg::spi::{self, View};
use pg::uuid::from_pg_uuid;
use pg::{wait, xact};

/// The pause between two queries, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn read_after(lease_uuid: Option<PgUuid>, timeout: default!(Option<Interval>, "'1 s'")) -> Result<bool, ErrorReport> {
    answer(|| {
        let lease = from_pg_uuid(required(lease_uuid, "lease_uuid")?);
        let timeout = arguments::span(required(timeout, "timeout")?, "timeout")?.as_micros();
        let deadline = Instant::now() + Duration::from_micros(u64::try_from(timeout).unwrap_or(u64::MAX));
        // A transaction with one snapshot does not see later outcomes, so it must not report them, and waiting does not help.
        let view = if xact::uses_transaction_snapshot() { View::Caller } else { View::Latest };
        let mut pauses = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        loop {
            let existing = spi::connect(|connection| leases::existing(connection, &[lease], view).pop());
            if existing.is_some_and(|existing| existing.outcome.is_some()) {
                return Ok(true);
            }
            if xact::uses_transaction_snapshot() {
                return Err(ReadError::NotInSnapshot { lease }.into());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            wait::sleep(pauses.pause().min(left).max(FIRST_PAUSE));
        }
    })
}
