//! `verify`: verifies all claims of a cell from one source type.

use std::time::Instant;

use super::begin::with_lock_timeout;
use super::errors::{VerificationError, warn_of_rows};
use super::expected::Expected;
use super::positions::{self, PositionKey};
use super::progress::{Counting, Tally};
use super::walk::{Verification, WalkExtent, Walked};
use crate::cell::client::unreachable;
use crate::cell::{epoch, reading};
use crate::kernel::arguments;
use crate::kernel::error::ClaimsError;
use crate::kernel::pass_log::Pass;
use pg::prelude::*;
use pg::spi::{self, Connection};
use pg::xact;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn verify(
    cell_id: Option<i64>,
    service: Option<String>,
    source_type: Option<String>,
    batch_size: default!(Option<i32>, 1000),
    recent: default!(
        Option<Interval>,
        "COALESCE(NULLIF(pg_catalog.current_setting('claims.verify_recent', true), ''), '1 hour')::pg_catalog.interval"
    ),
    correct: default!(Option<bool>, false),
    max_runtime: default!(Option<Interval>, "NULL"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(checked, i64),
            name!(missing, i64),
            name!(different, i64),
            name!(extra, i64),
            name!(corrected, i64),
            name!(held_by_other, i64),
            name!(skipped, i64),
            name!(finished, bool),
        ),
    >,
    ErrorReport,
> {
    xact::must_be_writable(c"claims.verify()");
    let began = Instant::now();
    let (source_type, tally, finished) = spi::connect(|connection| {
        let cell_id = arguments::required(cell_id, "cell_id")?;
        let server = arguments::required(service, "service")?;
        arguments::require!(source_type, batch_size, recent, correct);
        let source_type = reading::source_type_of(connection, cell_id, &source_type)?;
        let (batch, recent) = (arguments::batch_size(batch_size)?, arguments::span(recent, "recent")?);
        let deadline = arguments::end_of_runtime(max_runtime, began)?;
        if xact::uses_transaction_snapshot() {
            return Err(VerificationError::OldSnapshot.into());
        }
        let expected = Expected::at(connection, &source_type, &server);
        let options = Verification::new(&expected, &server, cell_id, &source_type);
        let (tally, finished) = verify_all(&Verification { batch, recent, correct, deadline, ..options })?;
        Ok::<_, ClaimsError>((source_type, tally, finished))
    })?;
    // A WARNING can leave this function by an error when the statement is being canceled: no resource may be open.
    if tally.unclaimable + tally.doubles > 0 {
        warn_of_rows(&source_type, tally.unclaimable, tally.doubles);
    }
    let Tally { checked, missing, different, extra, corrected, held_by_other, skipped, .. } = tally;
    Ok(TableIterator::once((checked, missing, different, extra, corrected, held_by_other, skipped, finished)))
}

/// Verifies all claims from the position at which the last call stopped, and records the pass in claims.passes.
fn verify_all(verification: &Verification) -> Result<(Tally, bool), ClaimsError> {
    let Verification { connection, expected, server, cell_id, source_type, correct, .. } = *verification;
    let log = Pass::begin("verify", Some(cell_id), Some(source_type), Some(server));
    let key = PositionKey { cell_id, service: server, source_type };
    let above = WalkExtent::Above(positions::position(connection, key));
    let walked = verification.walk(above, |service| {
        if correct {
            epoch::act_as(connection, service)?;
        }
        Ok(Counting::begin(cell_id, source_type, expected, Tally::default()))
    });
    let Walked { findings: Counting { tally, .. }, position, finished } = walked.map_err(unreachable)?;
    let finished = finished.map_err(unreachable)?;
    store_position(connection, key, position.as_deref().filter(|_| !finished));
    log.succeeded(connection, &tally.counts(finished));
    Ok((tally, finished))
}

/// Stores the position at which the next call continues. If another transaction is storing one, this position is dropped.
pub fn store_position(connection: &Connection, key: PositionKey, position: Option<&str>) {
    // Without the position the next call only verifies some ranges again.
    with_lock_timeout(|| positions::store(connection, key, position));
}
