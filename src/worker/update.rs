//! Updates an extension that is older than the library, if `claims.auto_update` is on.
//!
//! The update needs ACCESS EXCLUSIVE locks of tables, and while it waits for one, all calls that use the table wait behind it. So it waits for
//! each lock only briefly, and is tried again after a pause.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use claims_model::backoff::Backoff;
use claims_model::due::PAUSES;

use super::own_transactions::OwnTransactions;
use crate::cell::transactions::Transactions;
use crate::cell::workers;
use crate::kernel::pass_log::{self, Failure, Pass};
use crate::kernel::{schema, version};
use crate::worker::errors::{log_failed_pass, log_updated};
use pg::background::transaction;
use pg::owner::as_role;
use pg::settings::LockWaits;
use pg::spi;
use pg::subtransaction::{Stopped, attempt};
use pg::{activity, extension};

const LOCK_TIMEOUT_MS: i64 = 300;
/// The pauses after a failure to get a lock.
const LOCK_PAUSES: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
/// A failure to get a lock is reported only if it has gone on for so long. Until then calls wait for the next attempt.
const LOCKED_UNREPORTED: Duration = Duration::from_secs(10);
/// How often the same failure is reported.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);
const KIND: &str = "update";
const JOB: &str = "claims: update";

/// The attempts to update the extension since it was found to be older.
pub struct Updates {
    since: Option<Instant>,
    pauses: Backoff,
    lock_pauses: Backoff,
    /// The failure that was reported last, its SQLSTATE and message, and when.
    reported: Option<((String, String), Instant)>,
}

impl Updates {
    pub const fn new() -> Self {
        Updates { since: None, pauses: PAUSES, lock_pauses: LOCK_PAUSES, reported: None }
    }

    /// Tries to update the extension. Returns how long to wait before the next attempt, and zero if it has the version of the library now.
    pub fn attempt(&mut self, installed: &str) -> Duration {
        activity::show(Some(JOB));
        let since = *self.since.get_or_insert_with(Instant::now);
        let pass = Pass::begin(KIND, None, None, None);
        let Err(stopped) = update() else {
            self.succeeded(installed, pass);
            return Duration::ZERO;
        };
        // An administrator was faster.
        if transaction(version::is_same) {
            self.ended();
            return Duration::ZERO;
        }
        let Stopped::ByError(caught) = stopped;
        let failure = Failure::from(&caught);
        let is_locked = failure.is_of_a_lock();
        if !is_locked || since.elapsed() >= LOCKED_UNREPORTED {
            workers::has_failed_to_update(true);
            self.report(pass, &failure);
        }
        if is_locked { self.lock_pauses.pause() } else { self.pauses.pause() }
    }

    fn succeeded(&mut self, installed: &str, pass: Pass) {
        self.ended();
        log_updated(installed);
        if let Some(owner) = transaction(|| spi::connect(schema::owner)) {
            let recorded = OwnTransactions { owner }.in_database(|connection| {
                pass.succeeded(connection, &[]);
                Ok(())
            });
            if let Err(failure) = recorded {
                log_failed_pass("claims: record of a pass", &failure);
            }
        }
    }

    /// The extension has the version of the library.
    fn ended(&mut self) {
        workers::has_failed_to_update(false);
        *self = Updates::new();
    }

    /// Writes a failure to the server's log and to `claims.passes`, unless it was reported a moment ago.
    fn report(&mut self, pass: Pass, failure: &Failure) {
        let what = (failure.sqlstate.clone(), failure.message.clone());
        let is_reported = |(other, at): &((String, String), Instant)| *other == what && at.elapsed() < REPORT_INTERVAL;
        if self.reported.as_ref().is_some_and(is_reported) {
            return;
        }
        self.reported = Some((what, Instant::now()));
        log_failed_pass(JOB, failure);
        let record = || {
            let owner = spi::connect_unchecked(schema::owner)?;
            as_role(owner, || {
                spi::connect_unchecked(|connection| pass_log::failed_to_update(connection, pass, failure));
            });
            Some(())
        };
        let recorded = transaction(|| attempt(|| Ok::<_, Infallible>(record())));
        if let Err(Stopped::ByError(caught)) = recorded {
            log_failed_pass("claims: record of a pass", &Failure::from(&caught));
        }
    }
}

/// Updates the extension to the version of this library. A newer one may be installed, but its script needs its library.
fn update() -> Result<(), Stopped<Infallible>> {
    let _limited = LockWaits::limit(LOCK_TIMEOUT_MS);
    let update = || {
        extension::update("claims", version::LIBRARY);
        Ok(())
    };
    transaction(|| attempt(update))
}
