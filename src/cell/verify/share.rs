//! `verify_share`: runs one step of a worker in a verification that several workers share.
//!
//! Workers divide a pass into ranges as they need them. An expiring claim on a range's number says which worker has the range.
//! Other sessions see a hold only once it is committed. So each call works on the range that an earlier call took, and takes the
//! range for the next call at its end. For the same reason a call cannot extend its hold while it works. It works for at most half of
//! the time that is left of the hold, and renews the hold when it ends.

use claims_model::limits::CLAIMANT_CHARS;
use std::time::{Duration, Instant};

use claims_model::source_range::SourceRange;
use uuid::Uuid;

use super::begin::{must_be_claimed, with_lock_timeout};
use super::errors::{VerificationError, warn_of_lost_range, warn_of_rows};
use super::expected::Expected;
use super::passes::{self, VerificationPass};
use super::progress::{Counting, Tally};
use super::walk::{SHARED_BATCHES, Verification, WalkExtent, Walked};
use crate::cell::client::unreachable;
use crate::cell::{epoch, reading};
use crate::holds::errors::HoldError;
use crate::holds::expiring::{self, Hold, require_held};
use crate::kernel::error::ClaimsError;
use crate::kernel::{arguments, catalog};
use pg::clock::Moment;
use pg::prelude::*;
use pg::spi::{self, Connection};
use pg::subtransaction::without_waiting;
use pg::uuid::from_pg_uuid;
use pg::xact;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn verify_share(
    pass: Option<PgUuid>,
    worker: Option<String>,
    service: Option<String>,
    batch_size: default!(Option<i32>, 1000),
    recent: default!(
        Option<Interval>,
        "COALESCE(NULLIF(pg_catalog.current_setting('claims.verify_recent', true), ''), '1 hour')::pg_catalog.interval"
    ),
    hold_for: default!(Option<Interval>, "'1 minute'"),
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
            name!(in_hand, bool),
            name!(finished, bool),
        ),
    >,
    ErrorReport,
> {
    xact::must_be_writable(c"claims.verify_share()");
    let (share, outcome) = spi::connect(|connection| {
        let uuid = from_pg_uuid(arguments::required(pass, "pass")?);
        let worker = arguments::text(worker, "worker", CLAIMANT_CHARS)?;
        let server = arguments::required(service, "service")?;
        let batch = arguments::batch_size(arguments::required(batch_size, "batch_size")?)?;
        let recent = arguments::span(arguments::required(recent, "recent")?, "recent")?;
        arguments::deadline(hold_for, "hold_for", Moment::now())?;
        let pass = passes::pass(connection, uuid).ok_or(VerificationError::UnknownPass { pass: uuid })?;
        reading::require_for(connection, &catalog::current(connection), pass.cell_id)?;
        if xact::uses_transaction_snapshot() {
            return Err(VerificationError::OldSnapshot.into());
        }
        let share = Share { kind: kind(uuid), pass, worker, server, batch, recent, hold_for };
        let outcome = share.run(connection)?;
        Ok::<_, ClaimsError>((share, outcome))
    })?;
    let ShareOutcome { tally, in_hand, finished, lost } = outcome;
    // A WARNING can leave this function by an error when the statement is being canceled: no resource may be open.
    if tally.unclaimable + tally.doubles > 0 {
        warn_of_rows(&share.pass.source_type, tally.unclaimable, tally.doubles);
    }
    if lost {
        warn_of_lost_range(&share.worker);
    }
    let Tally { checked, missing, different, extra, corrected, held_by_other, skipped, .. } = tally;
    Ok(TableIterator::once((checked, missing, different, extra, corrected, held_by_other, skipped, in_hand, finished)))
}

/// Returns the kind of the expiring claims on a pass's ranges. sql/install/cell/share.sql uses the same text.
fn kind(pass: Uuid) -> String {
    format!("claims.verify {pass}")
}

/// A call of a worker.
struct Share {
    pass: VerificationPass,
    kind: String,
    worker: String,
    server: String,
    batch: i64,
    recent: Interval,
    hold_for: Option<Interval>,
}

/// The result of a call.
#[derive(Default)]
struct ShareOutcome {
    tally: Tally,
    /// Whether the worker holds a range for the next call.
    in_hand: bool,
    finished: bool,
    /// Whether another worker took the range while the call worked on it.
    lost: bool,
}

/// A range that the worker holds.
struct HeldRange {
    key: String,
    number: i64,
    token: i64,
    range: SourceRange,
    /// Time at which to stop working on it.
    deadline: Instant,
}

/// The end of a step on a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Done,
    OutOfTime,
    /// The hold has expired, or another worker has the range.
    Lost,
}

impl Share {
    fn run(&self, connection: &Connection) -> Result<ShareOutcome, ClaimsError> {
        let expected = Expected::at(connection, &self.pass.source_type, &self.server);
        let mut outcome = ShareOutcome::default();
        let mut ended = Ended::Done;
        if let Some(held) = self.held_range(connection) {
            let position;
            (outcome.tally, position, ended) = self.work(connection, &expected, &held)?;
            ended = self.record(connection, &held, position.as_deref(), ended)?;
            outcome.lost = ended == Ended::Lost;
        }
        if ended == Ended::OutOfTime {
            outcome.in_hand = true;
        } else {
            self.take(connection, &expected, &mut outcome)?;
        }
        Ok(outcome)
    }

    /// Returns the range that an earlier call took, if the worker still holds it.
    fn held_range(&self, connection: &Connection) -> Option<HeldRange> {
        let now = Moment::now();
        expiring::held_now(connection, &self.kind, &self.worker, now).into_iter().find_map(
            |expiring::Held { key, token, expires_at }| {
                let number = key.parse().ok()?;
                let range = passes::range(connection, self.pass.uuid, number)?;
                let remaining_micros = expires_at.0.saturating_sub(now.0).max(0).unsigned_abs();
                Some(HeldRange {
                    key,
                    number,
                    token,
                    range,
                    deadline: Instant::now() + Duration::from_micros(remaining_micros / 2),
                })
            },
        )
    }

    fn work(
        &self,
        connection: &Connection,
        expected: &Expected,
        held: &HeldRange,
    ) -> Result<(Tally, Option<String>, Ended), ClaimsError> {
        let VerificationPass { cell_id, source_type, correct, .. } = &self.pass;
        let require_range = || require_held(connection, &self.kind, &held.key, held.token);
        let verification = Verification {
            batch: self.batch,
            recent: self.recent,
            correct: *correct,
            deadline: Some(held.deadline),
            require_range: &require_range,
            ..Verification::new(expected, &self.server, *cell_id, source_type)
        };
        let Walked { findings, position, finished } =
            verification.walk(WalkExtent::Only(held.range.clone()), |service| {
                self.must_ask(self.pass.service.as_deref())?;
                if *correct {
                    epoch::act_as(connection, service)?;
                }
                Ok(Counting::begin(*cell_id, source_type, expected, Tally::default()))
            })?;
        let ended = match finished {
            Ok(true) => Ended::Done,
            Ok(false) => Ended::OutOfTime,
            Err(error) if is_lost(&error) => Ended::Lost,
            Err(error) => return Err(unreachable(error)),
        };
        Ok((findings.tally, position, ended))
    }

    /// Records the progress if the worker still holds the range. Then it holds the range until the transaction ends.
    fn record(
        &self,
        connection: &Connection,
        held: &HeldRange,
        position: Option<&str>,
        ended: Ended,
    ) -> Result<Ended, ClaimsError> {
        if ended == Ended::Lost {
            return Ok(Ended::Lost);
        }
        match require_held(connection, &self.kind, &held.key, held.token) {
            Err(error) if is_lost(&error) => return Ok(Ended::Lost),
            other => other?,
        }
        let (pass, was) = (self.pass.uuid, held.range.above.as_deref());
        // Two sessions may use the same worker's name: only one of them can record its progress.
        let recorded = without_waiting(|| match ended {
            Ended::Done => passes::done(connection, pass, held.number, was),
            _ => passes::advance(connection, pass, held.number, was, position),
        });
        if recorded != Some(true) {
            return Ok(Ended::Lost);
        }
        if ended == Ended::Done {
            expiring::remove(connection, &self.kind, std::slice::from_ref(&held.key));
        } else {
            self.hold()?.renew(connection);
        }
        Ok(ended)
    }

    /// Takes a range for the next call: one that another worker has released, or a new one.
    fn take(
        &self,
        connection: &Connection,
        expected: &Expected,
        outcome: &mut ShareOutcome,
    ) -> Result<(), ClaimsError> {
        outcome.in_hand = self.acquire(connection)?;
        if outcome.in_hand {
            return Ok(());
        }
        let pass = self.pass.uuid;
        let Some(division) = with_lock_timeout(|| passes::lock(connection, pass)).flatten() else { return Ok(()) };
        if division.is_finished || division.is_complete {
            outcome.finished = division.is_finished || passes::finish(connection, pass);
            return Ok(());
        }
        self.must_ask(division.service.as_deref())?;
        must_be_claimed(expected, &self.pass.source_type)?;
        let range = expected.range_above(division.up_to, self.batch * SHARED_BATCHES);
        if let Some(number) = passes::add_range(connection, pass, &self.server, &range) {
            expiring::add(connection, &self.kind, &[number.to_string()]);
            outcome.in_hand = self.acquire(connection)?;
        }
        Ok(())
    }

    /// Raises an error if the workers of the pass ask another service than this one.
    fn must_ask(&self, service: Option<&str>) -> Result<(), ClaimsError> {
        match service {
            Some(other) if other != self.server => {
                Err(VerificationError::OtherService { pass: self.pass.uuid, service: other.to_owned() }.into())
            }
            _ => Ok(()),
        }
    }

    fn acquire(&self, connection: &Connection) -> Result<bool, ClaimsError> {
        Ok(!self.hold()?.acquire(connection, Some(1)).is_empty())
    }

    /// Returns a hold of the worker that begins now.
    fn hold(&self) -> Result<Hold<'_>, ClaimsError> {
        let now = Moment::now();
        let until = arguments::deadline(self.hold_for, "hold_for", now)?;
        Ok(Hold { kind: &self.kind, claimant: &self.worker, now, until })
    }
}

/// Returns whether a worker does not hold its range any more.
fn is_lost(error: &ClaimsError) -> bool {
    matches!(error.of(), Some(HoldError::NotHeld { .. }))
}
