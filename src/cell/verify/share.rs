//! `verify_share`: one step of a worker in a verification that several share.
//!
//! A pass is divided into ranges as workers ask for them. Which worker has a range is an expiring claim on its number. A
//! hold is worth something only once it is committed: so each call works on the range that an earlier call took, and at
//! its end takes the one for the next call. No hold can be renewed in the middle of a transaction for others to see, so
//! a call works for half of what is left of its hold, and renews it when it ends.

use claims_model::limits::CLAIMANT_CHARS;
use std::time::{Duration, Instant};

use claims_model::source_range::SourceRange;
use pgrx::Uuid as PgUuid;
use pgrx::datum::Interval;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use uuid::Uuid;

use super::begin::{must_be_claimed, patiently};
use super::compare::Comparison;
use super::expected::Expected;
use super::progress::{Counting, Progress, Tally};
use super::remote::Remote;
use super::walk::{SHARED_BATCHES, Walk};
use super::whole::batch;
use crate::access;
use crate::arguments;
use crate::cell::client::Service;
use crate::cell::epoch;
use crate::cell::recovery::unreachable;
use crate::error::{self, ClaimsError, HoldError, VerificationError};
use crate::holds::expiring::require_held;
use crate::pg::clock::Moment;
use crate::pg::spi::{self, Connection};
use crate::pg::subtransaction::without_waiting;
use crate::pg::uuid::from_pg_uuid;
use crate::pg::xact;
use crate::store::catalog;
use crate::store::cell::passes::{self, VerificationPass};
use crate::store::holds::expiring;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
#[allow(clippy::type_complexity)]
fn verify_share(
    pass: Option<PgUuid>,
    worker: Option<String>,
    service: Option<String>,
    batch_size: default!(Option<i32>, 1000),
    recent: default!(Option<Interval>, "'1 hour'"),
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
        let uuid = from_pg_uuid(access::given(pass, "pass")?);
        let worker = arguments::text(worker, "worker", CLAIMANT_CHARS)?;
        let server = access::given(service, "service")?;
        let batch = batch(access::given(batch_size, "batch_size")?)?;
        let recent = arguments::span(access::given(recent, "recent")?, "recent")?;
        arguments::deadline(hold_for, "hold_for", Moment::now())?;
        let pass = passes::pass(connection, uuid).ok_or(VerificationError::UnknownPass { pass: uuid })?;
        access::act_here_for(&catalog::current(connection), pass.cell_id)?;
        if xact::keeps_one_snapshot() {
            return Err(VerificationError::OldSnapshot.into());
        }
        let share = Share { kind: kind(uuid), pass, worker, server, batch, recent, hold_for };
        let outcome = share.run(connection)?;
        Ok::<_, ClaimsError>((share, outcome))
    })?;
    let ShareOutcome { tally, in_hand, finished, lost } = outcome;
    // Warnings may jump out of here when the statement is being canceled: nothing may be open any more.
    if tally.unclaimable + tally.doubles > 0 {
        error::warn_of_rows(&share.pass.source_type, tally.unclaimable, tally.doubles);
    }
    if lost {
        error::warn_of_lost_range(&share.worker);
    }
    let Tally { checked, missing, different, extra, corrected, held_by_other, skipped, .. } = tally;
    Ok(TableIterator::once((checked, missing, different, extra, corrected, held_by_other, skipped, in_hand, finished)))
}

/// The kind of the expiring claims on a pass's ranges; sql/install/cell/share.sql knows it, too.
fn kind(pass: Uuid) -> String {
    format!("claims.verify {pass}")
}

/// A worker's call.
struct Share {
    pass: VerificationPass,
    kind: String,
    worker: String,
    server: String,
    batch: i64,
    recent: Interval,
    hold_for: Option<Interval>,
}

/// What came of it.
#[derive(Default)]
struct ShareOutcome {
    tally: Tally,
    /// The next call has a range to work on.
    in_hand: bool,
    finished: bool,
    /// The range was taken away while the call worked on it.
    lost: bool,
}

/// A range in the worker's hands.
struct RangeInHand {
    key: String,
    number: i64,
    token: i64,
    range: SourceRange,
    /// When to stop working on it.
    deadline: Instant,
}

/// How a step on a range ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Done,
    OutOfTime,
    /// The hold has expired, or the range has changed hands.
    Lost,
}

impl Share {
    fn run(&self, connection: &Connection) -> Result<ShareOutcome, ClaimsError> {
        let expected = Expected::of(connection, &self.pass.source_type, false);
        let mut outcome = ShareOutcome::default();
        let mut ended = Ended::Done;
        if let Some(mut hand) = self.in_hand(connection) {
            must_be_claimed(&expected, &self.pass.source_type)?;
            let position;
            (outcome.tally, position, ended) = self.work(connection, &expected, &mut hand)?;
            ended = self.record(connection, &hand, position.as_deref(), ended)?;
            outcome.lost = ended == Ended::Lost;
        }
        if ended == Ended::OutOfTime {
            outcome.in_hand = true;
        } else {
            self.take(connection, &expected, &mut outcome)?;
        }
        Ok(outcome)
    }

    /// The range that an earlier call took, if it is still held.
    fn in_hand(&self, connection: &Connection) -> Option<RangeInHand> {
        let now = Moment::now();
        expiring::held_now(connection, &self.kind, &self.worker, now).into_iter().find_map(|(key, token, until)| {
            let number = key.parse().ok()?;
            let range = passes::range(connection, self.pass.uuid, number)?;
            let left = Moment::from(until).0.saturating_sub(now.0).max(0).unsigned_abs();
            Some(RangeInHand { key, number, token, range, deadline: Instant::now() + Duration::from_micros(left / 2) })
        })
    }

    fn work(
        &self,
        connection: &Connection,
        expected: &Expected,
        hand: &mut RangeInHand,
    ) -> Result<(Tally, Option<String>, Ended), ClaimsError> {
        let VerificationPass { cell_id, source_type, correct, .. } = &self.pass;
        let rows = expected.attributes().iter().map(|attribute| attribute.rows).sum();
        let in_charge = || require_held(connection, &self.kind, &hand.key, hand.token);
        let service = Service::new(connection, &self.server, *cell_id)?;
        if *correct {
            epoch::act_as(connection, &service, *cell_id)?;
        }
        let remote = Remote::new(&service, *cell_id, source_type, self.recent, expected.naming());
        let comparison =
            Comparison { connection, expected, remote: &remote, source_type, correct: *correct, in_charge: &in_charge };
        let mut walk = Walk {
            comparison,
            batch: self.batch,
            deadline: Some(hand.deadline),
            findings: Counting { tally: Tally::default(), progress: Progress::begin(*cell_id, source_type, rows) },
            position: hand.range.above.clone(),
        };
        let ended = match walk.run(&mut Some(hand.range.clone())) {
            Ok(true) => Ended::Done,
            Ok(false) => Ended::OutOfTime,
            Err(ClaimsError::Hold(HoldError::NotHeld { .. })) => Ended::Lost,
            Err(error) => return Err(unreachable(error)),
        };
        Ok((walk.findings.tally, walk.position, ended))
    }

    /// Writes down what was done, if the range is still in the worker's hands; until the transaction ends, it is.
    fn record(
        &self,
        connection: &Connection,
        hand: &RangeInHand,
        position: Option<&str>,
        ended: Ended,
    ) -> Result<Ended, ClaimsError> {
        if ended == Ended::Lost {
            return Ok(Ended::Lost);
        }
        match require_held(connection, &self.kind, &hand.key, hand.token) {
            Err(ClaimsError::Hold(HoldError::NotHeld { .. })) => return Ok(Ended::Lost),
            other => other?,
        }
        let (pass, was) = (self.pass.uuid, hand.range.above.as_deref());
        // Two sessions that use one worker's name: only one of them can say what was done.
        let recorded = without_waiting(|| match ended {
            Ended::Done => passes::done(connection, pass, hand.number, was),
            _ => passes::advance(connection, pass, hand.number, was, position),
        });
        if recorded != Some(true) {
            return Ok(Ended::Lost);
        }
        if ended == Ended::Done {
            without_waiting(|| expiring::remove(connection, &self.kind, vec![hand.key.clone()]));
        } else {
            let (now, until) = self.hold()?;
            without_waiting(|| expiring::renew(connection, &self.kind, &self.worker, now, until));
        }
        Ok(ended)
    }

    /// Takes a range for the next call: one that somebody has let go, or a new one.
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
        let Some(division) = patiently(|| passes::lock(connection, pass)).flatten() else { return Ok(()) };
        if division.is_finished || division.is_complete {
            outcome.finished = division.is_finished || passes::finish(connection, pass);
            return Ok(());
        }
        must_be_claimed(expected, &self.pass.source_type)?;
        let mut range = SourceRange { above: division.up_to, up_to: None };
        range.up_to = expected.end_of(&range, self.batch * SHARED_BATCHES);
        if let Some(number) = passes::cut_off(connection, pass, &range) {
            expiring::add(connection, &self.kind, vec![number.to_string()]);
            outcome.in_hand = self.acquire(connection)?;
        }
        Ok(())
    }

    fn acquire(&self, connection: &Connection) -> Result<bool, ClaimsError> {
        let (now, until) = self.hold()?;
        let acquire = || expiring::acquire(connection, &self.kind, &self.worker, now, until, Some(1));
        Ok(without_waiting(acquire).is_some_and(|taken| !taken.is_empty()))
    }

    /// Now, and until when a hold that begins now lasts.
    fn hold(&self) -> Result<(Moment, Moment), ClaimsError> {
        let now = Moment::now();
        Ok((now, arguments::deadline(self.hold_for, "hold_for", now)?))
    }
}
