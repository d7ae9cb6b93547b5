//! Verification by the background worker: verifies ranges, one after the other, for the length of a time slice.
//!
//! No transaction is open while the service computes the digest of a range. Mostly the digests agree. Only if they differ, one
//! transaction compares both sides, because the rows must not change here while their claims are corrected.

use std::time::{Duration, Instant};

use claims_model::source_range::SourceRange;
use pgrx::datum::Interval;

use super::begin::must_be_claimed;
use super::expected::{Expected, Summary};
use super::positions;
use super::progress::{Counting, Progress, Tally};
use super::remote::Remote;
use super::slot::VerificationSlot;
use super::walk::{BATCH, BATCHES, Verification, WalkExtent, Walked};
use super::whole::store_position;
use crate::cell::client::naming::RequiredNaming;
use crate::cell::client::{Service, unreachable};
use crate::cell::epoch;
use crate::cell::transactions::Transactions;
use crate::kernel::error::ClaimsError;
use crate::kernel::pass_log::Pass;
use crate::kernel::settings;
use pg::spi::Connection;

/// Length of a slice.
const SLICE: Duration = Duration::from_secs(10);
/// Timeout of a digest, for which no transaction is open.
const DIGEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout of a call within an open transaction. The service has answered a call just before.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A verification to run.
pub struct SliceTask<'t> {
    pub cell_id: i64,
    pub server: &'t str,
    pub source_type: &'t str,
    pub correct: bool,
}

/// A range, and the digest of the claims that it needs.
struct SliceRange {
    range: SourceRange,
    expected: Summary,
    naming: RequiredNaming,
}

impl SliceTask<'_> {
    /// Continues where the last slice ended. Returns whether the walk has reached the end. Holds a slot of the service until then.
    pub fn slice<G: Transactions>(&self, transactions: &G) -> Result<bool, G::Error> {
        let connect = |connection: &Connection| Service::resolved(connection, self.server, self.cell_id);
        let service = transactions.in_database(connect)?;
        let slot = VerificationSlot::take(transactions, &service)?;
        let is_finished = self.slice_with(transactions, &service, &slot);
        if !matches!(is_finished, Ok(false)) {
            slot.give_back(transactions);
        }
        is_finished
    }

    fn slice_with<G: Transactions>(
        &self,
        transactions: &G,
        service: &Service,
        slot: &VerificationSlot,
    ) -> Result<bool, G::Error> {
        let SliceTask { cell_id, server, source_type, correct } = *self;
        let walked = positions::PositionKey { cell_id, service: server, source_type };
        let log = Pass::begin("verify", Some(cell_id), Some(source_type), Some(server));
        let deadline = Instant::now() + SLICE;
        let (mut position, rows) = transactions.in_database(|connection| {
            let expected = Expected::at(connection, source_type, server);
            let rows = expected.estimated_rows();
            let position = positions::position(connection, walked);
            Ok((position, rows))
        })?;
        if correct {
            epoch::act_as(transactions, service)?;
        }
        let progress = Progress::begin(cell_id, source_type, rows);
        let mut tally = Tally::default();
        let mut is_finished = false;
        while !is_finished {
            slot.extend(transactions)?;
            progress.show(&tally, position.as_deref());
            let SliceRange { range, expected, naming } =
                transactions.in_database(|connection| self.next_range(connection, position))?;
            let remote = Remote::new(service, source_type, recent(), naming, DIGEST_TIMEOUT);
            let claimed = transactions.at_service(|| remote.digest(&range).map_err(unreachable))?;
            let ends_everything = range.up_to.is_none();
            if claimed == expected.claims {
                tally.add_in_order(&expected);
                (position, is_finished) = (range.up_to, ends_everything);
            } else {
                let compared =
                    transactions.in_database(|connection| self.compare(connection, range, tally, deadline))?;
                (tally, position, is_finished) =
                    (compared.findings, compared.position, compared.finished? && ends_everything);
            }
            let next_position = position.as_deref().filter(|_| !is_finished);
            transactions.in_database(|connection| {
                store_position(connection, walked, next_position);
                Ok(())
            })?;
            if Instant::now() >= deadline {
                break;
            }
        }
        transactions.in_database(|connection| {
            log.succeeded(connection, &tally.counts(is_finished));
            Ok(())
        })?;
        Ok(is_finished)
    }

    /// Returns the next range above a position.
    fn next_range(&self, connection: &Connection, position: Option<String>) -> Result<SliceRange, ClaimsError> {
        let expected = Expected::at(connection, self.source_type, self.server);
        must_be_claimed(&expected, self.source_type)?;
        let range = expected.range_above(position, BATCH * BATCHES);
        Ok(SliceRange { expected: expected.digest(&range), naming: expected.naming(), range })
    }

    /// Compares a range, and corrects it if requested, in the current transaction.
    fn compare(
        &self,
        connection: &Connection,
        range: SourceRange,
        tally: Tally,
        deadline: Instant,
    ) -> Result<Walked<Tally>, ClaimsError> {
        let SliceTask { cell_id, server, source_type, correct } = *self;
        let expected = Expected::at(connection, source_type, server);
        let verification = Verification {
            recent: recent(),
            correct,
            deadline: Some(deadline),
            answer_timeout: ANSWER_TIMEOUT,
            ..Verification::new(&expected, server, cell_id, source_type)
        };
        let counting = || Counting::begin(cell_id, source_type, &expected, tally);
        let Walked { findings, position, finished } = verification.walk(WalkExtent::Only(range), |_| Ok(counting()))?;
        Ok(Walked { findings: findings.tally, position, finished: finished.map_err(unreachable) })
    }
}

fn recent() -> Interval {
    Interval::from_seconds(settings::verify_recent().as_secs_f64())
}
