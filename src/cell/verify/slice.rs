//! Verification by the background worker: ranges one after the other, for as long as a slice of time lasts.
//!
//! No transaction is open while the service says what it has of a range. Mostly that is what is called for here. Only where it is not,
//! both sides are compared in one transaction: what is corrected must not change here meanwhile.

use std::time::{Duration, Instant};

use claims_model::source_range::SourceRange;
use pgrx::datum::Interval;

use super::begin::must_be_claimed;
use super::compare::Comparison;
use super::expected::{Expected, Summary};
use super::progress::{Counting, Progress, Tally};
use super::remote::Remote;
use super::walk::{BATCHES, Walk};
use super::whole::keep;
use crate::cell::client::Service;
use crate::cell::client::naming::RequiredNaming;
use crate::cell::epoch;
use crate::cell::recovery::ground::Ground;
use crate::cell::recovery::unreachable;
use crate::error::ClaimsError;
use crate::passes::Pass;
use crate::pg::spi::Connection;
use crate::store::cell::positions;

/// Rows in a batch, what is left alone, and how long a slice lasts.
const BATCH: i64 = 1000;
const RECENT: Duration = Duration::from_secs(3600);
const SLICE: Duration = Duration::from_secs(10);
/// How long a transaction is kept open for one answer. The service has answered just before.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is verified.
pub struct SliceTask<'t> {
    pub cell_id: i64,
    pub server: &'t str,
    pub source_type: &'t str,
    pub correct: bool,
}

/// A range, and what is called for in it.
struct Stretch {
    range: SourceRange,
    expected: Summary,
    naming: RequiredNaming,
}

impl SliceTask<'_> {
    /// Goes on where the last slice has ended; returns whether it has reached the end.
    pub fn slice<G: Ground>(&self, ground: &G) -> Result<bool, G::Error> {
        let SliceTask { cell_id, server, source_type, correct } = *self;
        let log = Pass::begin("verify", Some(cell_id), Some(source_type));
        let deadline = Instant::now() + SLICE;
        let (service, mut position, rows) = ground.here(|connection| {
            let expected = Expected::of(connection, source_type, false);
            let rows = expected.attributes().iter().map(|attribute| attribute.rows).sum();
            let position = positions::position(connection, cell_id, source_type);
            Ok((Service::ahead(connection, server, cell_id)?, position, rows))
        })?;
        if correct {
            epoch::act_as(ground, &service, cell_id)?;
        }
        let progress = Progress::begin(cell_id, source_type, rows);
        let mut tally = Tally::default();
        let mut is_finished = false;
        while !is_finished {
            progress.show(&tally, position.as_deref());
            let Stretch { range, expected, naming } = ground.here(|connection| self.stretch(connection, position))?;
            let remote = Remote::new(&service, cell_id, source_type, recent(), naming);
            let claimed = ground.there(|| remote.digest(&range).map_err(unreachable))?;
            let ends_everything = range.up_to.is_none();
            if claimed == expected.claims {
                tally.add_in_order(&expected);
                (position, is_finished) = (range.up_to, ends_everything);
            } else {
                let compared = ground.here(|connection| self.compare(connection, range, tally, deadline))?;
                let ComparedSlice { tally: counted, position: reached, is_whole } = compared;
                (tally, position, is_finished) = (counted, reached, is_whole && ends_everything);
            }
            let kept = position.as_deref().filter(|_| !is_finished);
            ground.here(|connection| {
                keep(connection, cell_id, source_type, kept);
                Ok(())
            })?;
            if Instant::now() >= deadline {
                break;
            }
        }
        ground.here(|connection| {
            log.succeeded(connection, &tally.counts(is_finished));
            Ok(())
        })?;
        Ok(is_finished)
    }

    /// The next range behind a position.
    fn stretch(&self, connection: &Connection, position: Option<String>) -> Result<Stretch, ClaimsError> {
        let expected = Expected::of(connection, self.source_type, false);
        must_be_claimed(&expected, self.source_type)?;
        let mut range = SourceRange { above: position, up_to: None };
        range.up_to = expected.end_of(&range, BATCH * BATCHES);
        Ok(Stretch { expected: expected.digest(&range), naming: expected.naming(), range })
    }

    /// Finds what differs in a range, and corrects it, in the transaction that is running.
    fn compare(
        &self,
        connection: &Connection,
        range: SourceRange,
        tally: Tally,
        deadline: Instant,
    ) -> Result<ComparedSlice, ClaimsError> {
        let SliceTask { cell_id, server, source_type, correct } = *self;
        let expected = Expected::of(connection, source_type, false);
        must_be_claimed(&expected, source_type)?;
        let service = Service::new(connection, server, cell_id)?;
        let remote = Remote::new(&service, cell_id, source_type, recent(), expected.naming()).within(PATIENCE);
        let in_charge = || Ok(());
        let (expected, remote) = (&expected, &remote);
        let comparison = Comparison { connection, expected, remote, source_type, correct, in_charge: &in_charge };
        let progress = Progress::begin(cell_id, source_type, expected.attributes().iter().map(|one| one.rows).sum());
        let (position, deadline) = (range.above.clone(), Some(deadline));
        let findings = Counting { tally, progress };
        let mut walk = Walk { comparison, batch: BATCH, deadline, findings, position };
        let is_whole = walk.run(&mut Some(range)).map_err(unreachable)?;
        let Walk { findings: Counting { tally, .. }, position, .. } = walk;
        Ok(ComparedSlice { tally, position, is_whole })
    }
}

/// How far a comparison has come.
struct ComparedSlice {
    tally: Tally,
    position: Option<String>,
    /// To the end of its range.
    is_whole: bool,
}

fn recent() -> Interval {
    Interval::from_seconds(RECENT.as_secs_f64())
}
