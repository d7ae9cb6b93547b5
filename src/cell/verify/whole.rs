//! `verify`: verifies all claims of a cell from one source type.

use std::time::{Duration, Instant};

use claims_model::{BadInput, Problem};

use super::begin::with_lock_timeout;
use super::expected::Expected;
use super::positions;
use super::progress::{Counting, Tally};
use super::walk::{Extent, Verification, Walked};
use crate::arguments;
use crate::cell::client::unreachable;
use crate::cell::verify::errors::{VerificationError, warn_of_rows};
use crate::cell::{epoch, reading};
use crate::error::ClaimsError;
use crate::kernel::catalog;
use crate::kernel::pass_log::Pass;
use pg::prelude::*;
use pg::spi::{self, Connection};
use pg::xact;

const MAX_BATCH: i32 = 10_000;

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
    let started_at = Instant::now();
    let (task, tally, finished) = spi::connect(|connection| {
        let cell_id = arguments::required(cell_id, "cell_id")?;
        let server = arguments::required(service, "service")?;
        arguments::require!(source_type, batch_size, recent, correct);
        let catalog = catalog::current(connection);
        reading::require_for(connection, &catalog, cell_id)?;
        let (_, source_type) = arguments::source_type(&source_type, &catalog.types)?;
        let (batch, recent) = (batch(batch_size)?, arguments::span(recent, "recent")?);
        let deadline = max_runtime.map(|runtime| deadline(started_at, runtime)).transpose()?;
        let task = WholeTask { cell_id, source_type, batch, recent, correct, deadline };
        if xact::uses_transaction_snapshot() {
            return Err(VerificationError::OldSnapshot.into());
        }
        let (tally, finished) = task.run_and_log(connection, &server)?;
        Ok::<_, ClaimsError>((task, tally, finished))
    })?;
    // A WARNING can leave this function by an error when the statement is being canceled: no resource may be open.
    if tally.unclaimable + tally.doubles > 0 {
        warn_of_rows(&task.source_type, tally.unclaimable, tally.doubles);
    }
    let Tally { checked, missing, different, extra, corrected, held_by_other, skipped, .. } = tally;
    Ok(TableIterator::once((checked, missing, different, extra, corrected, held_by_other, skipped, finished)))
}

pub fn batch(batch_size: i32) -> Result<i64, ClaimsError> {
    if (1..=MAX_BATCH).contains(&batch_size) {
        return Ok(batch_size.into());
    }
    Err(BadInput::new("batch_size", Problem::OutOfRange { allowed: "1 to 10000" }).into())
}

/// Returns the time at which to stop.
pub fn deadline(started_at: Instant, max_runtime: Interval) -> Result<Instant, ClaimsError> {
    let micros = arguments::span(max_runtime, "max_runtime")?.as_micros();
    Ok(started_at + Duration::from_micros(micros.unsigned_abs() as u64))
}

/// A verification to run, with its options.
struct WholeTask {
    cell_id: i64,
    source_type: String,
    batch: i64,
    recent: Interval,
    correct: bool,
    deadline: Option<Instant>,
}

impl WholeTask {
    /// Verifies through a foreign server, and records the pass in claims.passes.
    fn run_and_log(&self, connection: &Connection, server: &str) -> Result<(Tally, bool), ClaimsError> {
        let log = Pass::begin("verify", Some(self.cell_id), Some(&self.source_type), Some(server));
        let (tally, finished) = self.run(connection, server).map_err(unreachable)?;
        log.succeeded(connection, &tally.counts(finished));
        Ok((tally, finished))
    }

    fn run(&self, connection: &Connection, server: &str) -> Result<(Tally, bool), ClaimsError> {
        let WholeTask { cell_id, source_type, .. } = self;
        let expected = Expected::at(connection, source_type, server);
        let walked = positions::Walked { cell_id: *cell_id, service: server, source_type };
        let verification = Verification {
            batch: self.batch,
            recent: self.recent,
            correct: self.correct,
            deadline: self.deadline,
            ..Verification::new(&expected, server, *cell_id, source_type)
        };
        let above = Extent::Above(positions::position(connection, walked));
        let Walked { findings, position, finished } = verification.walk(above, |service| {
            if self.correct {
                epoch::act_as(connection, service, *cell_id)?;
            }
            Ok(Counting::begin(*cell_id, source_type, &expected, Tally::default()))
        })?;
        let finished = finished?;
        store_position(connection, walked, position.as_deref().filter(|_| !finished));
        Ok((findings.tally, finished))
    }
}

/// Stores the position at which the next call continues. If another transaction is storing one, this position is dropped.
pub fn store_position(connection: &Connection, walked: positions::Walked, position: Option<&str>) {
    // Without the position the next call only verifies some ranges again.
    with_lock_timeout(|| positions::store(connection, walked, position));
}
