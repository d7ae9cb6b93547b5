//! Waits for names that other leases hold (`claims.lease_wait`).
//!
//! Before it tries to take a batch, a call looks at the batch's names. While all conflicts are temporary, it sleeps and looks
//! again. Each look is a subtransaction that is rolled back, and it writes nothing. So a sleeping call holds no lock and no
//! transaction id, and where its statement allows it ([`snapshot::released`]) no snapshot. The answer, whatever it is, comes
//! from the attempt that follows.
//!
//! Waiters have an order ([`waiters`]), where the library is preloaded and the tables are not distributed. Elsewhere each call
//! looks again after growing pauses.

use std::time::{Duration, Instant};

use claims_model::backoff::Backoff;
use claims_model::waiting::{POLL_US, Wish};
use claims_model::{Batch, Op, conflict};
use pgrx::PgSqlErrorCode as Code;

use super::acquire::Acquired;
use super::conflicts::{self, Probed};
use super::request::{ClaimStep, Request};
use crate::kernel::call::{Call, CellCall};
use crate::kernel::error::ClaimsError;
use crate::kernel::settings;
use crate::service::counters::{self, WaitEnd};
use crate::service::errors::AdmissionError;
use crate::service::waiters::{self, QueueEntry};
use pg::clock::monotonic;
use pg::settings::LockWaits;
use pg::subtransaction::{NO_WAIT_LIMIT_MS, Undone, subtransaction};
use pg::{snapshot, wait, xact};

/// Raises an error unless the cell may use the session's priority.
pub fn check_priority(call: &CellCall) -> Result<(), ClaimsError> {
    let cell_id = call.cell_id;
    let priority = settings::lease_priority();
    if priority <= 0 {
        return Ok(());
    }
    match call.catalog.limits.get(&cell_id).and_then(|limits| limits.max_priority).unwrap_or(0) {
        limit if priority > limit => Err(AdmissionError::PriorityTooHigh { cell_id, priority, limit }.into()),
        _ => Ok(()),
    }
}

/// The first and the longest pause between two looks where there is no queue.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_micros(POLL_US as u64);

/// The result of a look at a batch.
pub enum Seen {
    /// Nothing speaks against an attempt, or only an attempt has the answer.
    Attempt,
    /// A conflict is permanent, so the attempt has the answer. Should it find only temporary ones, the call waits after all.
    Permanent,
    /// Waiting is useless: a conflict would end only with this transaction, or too many calls wait.
    Useless,
    /// All conflicts are temporary.
    Wait(HeldNames),
}

/// The names for which a call has to wait.
pub struct HeldNames {
    wishes: Vec<Wish>,
    /// Until then, or longer, one of them is kept for another waiter.
    kept_until: Option<i64>,
}

/// The wait of a call for leases of others to end.
pub struct LeaseWait {
    cell_id: i64,
    began: Instant,
    deadline: Instant,
    waiting: Option<QueueEntry>,
    /// How long the call has waited; 0 if it found its names free.
    waited: Duration,
    pauses: Backoff,
    /// Whether an end of the wait is still to be counted.
    is_open: bool,
    /// Whether the last look has shown that waiting is useless.
    gives_up: bool,
    /// Whether the last look has shown a conflict that is permanent.
    is_refused: bool,
}

impl LeaseWait {
    /// Returns `None` if the session does not want to wait, or if the transaction could not see the end of a lease.
    pub fn of_session(cell_id: i64, began: Instant) -> Option<Self> {
        let wait = settings::lease_wait();
        if wait.is_zero() || xact::uses_transaction_snapshot() || xact::is_read_only() {
            return None;
        }
        Some(LeaseWait {
            cell_id,
            began,
            deadline: began + wait,
            waiting: None,
            waited: Duration::ZERO,
            pauses: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            is_open: false,
            gives_up: false,
            is_refused: false,
        })
    }

    /// Returns how long the call has waited so far.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Returns whether the call will be refused for good, unless things have changed since its last look.
    pub fn is_refused(&self) -> bool {
        self.is_refused
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Waits until an attempt is likely to succeed, or waiting is useless. `look` returns the conflicts.
    pub fn wait(&mut self, look: impl Fn(&mut Self) -> Result<Seen, ClaimsError>) -> Result<(), ClaimsError> {
        loop {
            let looked_at = monotonic();
            let lock_waits = LockWaits::limit(NO_WAIT_LIMIT_MS);
            let seen = match subtransaction(&[Code::ERRCODE_LOCK_NOT_AVAILABLE], || Err::<(), _>(look(self))) {
                // A lock is in the way of the look. The call keeps its position, and the names it waits for.
                Err(Undone::ByBody(Err(error))) if error.ends_with_other_transaction() => None,
                Err(Undone::ByError(_)) => None,
                Err(Undone::ByBody(seen)) => Some(seen?),
                Ok(()) => return Ok(()),
            };
            drop(lock_waits);
            self.gives_up = matches!(seen, Some(Seen::Useless));
            self.is_refused = matches!(seen, Some(Seen::Permanent));
            let held = match seen {
                None => None,
                Some(Seen::Wait(held)) => Some(held),
                Some(_) => return Ok(()),
            };
            self.is_open = true;
            if self.is_over() {
                return Ok(());
            }
            let has_new = match (&self.waiting, &held) {
                (Some(waiting), Some(held)) => waiting.wait_for(&held.wishes, looked_at),
                _ => false,
            };
            if !has_new {
                self.sleep(held.and_then(|held| held.kept_until));
            }
        }
    }

    fn sleep(&mut self, kept_until: Option<i64>) {
        let pause = match &self.waiting {
            Some(_) => {
                let until_kept = kept_until.map_or(POLL_US, |until| until.saturating_sub(monotonic()));
                Duration::from_micros(until_kept.clamp(0, POLL_US).unsigned_abs())
            }
            None => self.pauses.pause(),
        };
        let remaining = self.deadline.saturating_duration_since(Instant::now());
        // A sleep has whole milliseconds.
        let pause = pause.min(remaining) + Duration::from_millis(1);
        snapshot::released(|| wait::sleep_for_client(pause));
        self.waited = self.began.elapsed();
    }

    /// Returns whether the call waits again after an attempt that has raised this error.
    pub fn outlasts(&self, error: &ClaimsError) -> bool {
        error.ends_with_other_transaction() && !self.is_over()
    }

    /// Sleeps once before the next look.
    pub fn pause(&mut self) {
        self.is_open = true;
        self.sleep(None);
    }

    /// Looks at one batch. Joins the queue if the batch has conflicts, or if another call waits for one of its names.
    pub fn look(&mut self, request: &Request) -> Seen {
        let call = request.call;
        // The attempt raises the error of a payload that is too large.
        let Ok((reduced, probed)) = conflicts::probe(request) else { return Seen::Attempt };
        let Probed { existing, is_lease_busy, mut conflicts, .. } = probed;
        let request = reduced.as_ref().unwrap_or(request);
        if existing.is_some() || is_lease_busy {
            return Seen::Attempt;
        }
        if conflicts.values().any(|conflict| !conflict.reason.retryable()) {
            return Seen::Permanent;
        }
        // A lease that this transaction has begun does not end while it waits.
        if conflicts.values().any(|conflict| waiters::is_begun_here(&conflict.bucket)) {
            return Seen::Useless;
        }
        let buckets = || request.operations().map(|(_, bucket)| bucket);
        if conflicts.is_empty() && !waiters::is_any_wanted(call, buckets()) {
            return Seen::Attempt;
        }
        if !self.join(call) {
            return Seen::Useless;
        }
        let kept_until = conflicts::add_queued(request, &mut conflicts);
        if conflicts.is_empty() {
            return Seen::Attempt;
        }
        // The registration has room for some names only: those that are locked first.
        let held = request.steps().filter(|step| conflicts.contains_key(step.bucket()));
        let wish = |step: ClaimStep| Wish { name: waiters::name(step.bucket()), creates: step.op() == Op::Create };
        Seen::Wait(HeldNames { wishes: held.map(wish).collect(), kept_until })
    }

    /// Joins the queue, where there is one. Returns `false` if it is full.
    fn join(&mut self, call: &Call) -> bool {
        if self.waiting.is_none() && waiters::has_queue(call) {
            self.waiting = QueueEntry::join(call, self.cell_id, settings::lease_priority());
            return self.waiting.is_some();
        }
        true
    }

    /// Returns whether the call waits again after an attempt that has met conflicts.
    pub fn continues(&self, acquired: &Acquired) -> bool {
        let Acquired::Conflicts(conflicts) = acquired else { return false };
        conflict::are_temporary(conflicts) && !self.gives_up && !self.is_over()
    }

    /// Ends the wait with the answer of an attempt, and counts it. `batches` are those of the call.
    pub fn end(mut self, acquired: &mut Acquired, batches: &[Batch]) {
        if let (Acquired::Lease(begun), Some(waiting)) = (&acquired, self.waiting.take()) {
            waiting.leave_with(begun.buckets(batches));
        }
        let end = match acquired {
            Acquired::Lease(_) => WaitEnd::Got,
            Acquired::Conflicts(conflicts) => {
                // Its deadline may have come during a look, after the last sleep.
                let is_over = self.is_open && self.is_over();
                let waited = if is_over { self.began.elapsed() } else { self.waited };
                if !waited.is_zero() {
                    let seconds = (waited.as_secs_f64() * 1000.0).round() / 1000.0;
                    conflicts.iter_mut().for_each(|conflict| conflict.waited_seconds = Some(seconds));
                }
                match conflict::are_temporary(conflicts) {
                    true => WaitEnd::Timeout,
                    false => WaitEnd::Taken,
                }
            }
        };
        self.count(end);
    }

    fn count(&mut self, end: WaitEnd) {
        if std::mem::take(&mut self.is_open) {
            counters::waited(self.cell_id, end, self.began.elapsed());
        }
    }
}

impl Drop for LeaseWait {
    fn drop(&mut self) {
        // An error has ended the wait.
        self.count(WaitEnd::Cancelled);
    }
}

/// Combines what looks at several batches have shown. The call waits while one of them can become free, and none is.
pub fn combine(seen: impl Iterator<Item = Seen>) -> Seen {
    let mut all: Option<HeldNames> = None;
    let mut otherwise = Seen::Permanent;
    for seen in seen {
        match seen {
            Seen::Attempt => return Seen::Attempt,
            Seen::Permanent => {}
            Seen::Useless => otherwise = Seen::Useless,
            Seen::Wait(one) => {
                let held = all.get_or_insert(HeldNames { wishes: Vec::new(), kept_until: None });
                held.wishes.extend(one.wishes);
                held.kept_until = held.kept_until.into_iter().chain(one.kept_until).min();
            }
        }
    }
    all.map_or(otherwise, Seen::Wait)
}
