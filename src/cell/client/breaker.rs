//! The circuit breaker of each service: while a service is down, calls fail at once. [`states`] stores its state.

use std::cell::Cell;
use std::time::Duration;

use claims_model::breaker::{Admission, Breaker, Caller, Limits};
use pgrx::pg_sys::Oid;

use super::states;
use crate::cell::errors::CellError;
use crate::kernel::error::ClaimsError;
use crate::kernel::settings;
use pg::clock::Moment;
use pg::prelude::*;
use pg::{background, foreign};

/// Size of a request that the service must answer within `claims.breaker_timeout`. A larger request gets that time once more for each
/// further such size.
const BYTES_PER_TIMEOUT: usize = 64 * 1024;

fn limits() -> Limits {
    Limits { failures: settings::breaker_failures(), pause: settings::breaker_pause() * 1000 }
}

/// Returns this process as a caller. `is_own_call` says that no user's code can have made the call. The background worker makes such
/// calls; but when it verifies, it runs code of table owners.
fn caller(is_own_call: bool) -> Caller {
    Caller { session: background::own_process(), is_trusted: is_own_call && background::is_worker() }
}

/// Returns whether a service had enough time to answer a request, so that its silence is evidence of a failure.
fn is_enough(timeout: Duration, request_bytes: usize) -> bool {
    /// Time that may have passed between the start of the timeout and the call.
    const SLACK: Duration = Duration::from_millis(10);
    let times = u32::try_from(1 + request_bytes / BYTES_PER_TIMEOUT).unwrap_or(u32::MAX);
    timeout + SLACK >= settings::breaker_timeout().saturating_mul(times)
}

/// A call that the breaker has admitted. Its result must be reported; otherwise it counts as canceled.
pub struct AdmittedCall {
    service: Oid,
    caller: Caller,
    trial: bool,
    is_reported: Cell<bool>,
    /// How long the service may wait for names by the cell's own wish.
    wait: Cell<Duration>,
}

/// Raises an error while the breaker of a server is open, and changes no state. Callers use it before they prepare a call.
pub fn refuse_if_open(server: &str, service: Oid) -> Result<(), ClaimsError> {
    match states::peek(service, |mut breaker, now| (breaker.admit(now, limits(), caller(false)), breaker)) {
        Some((Admission::Refuse { next_try }, breaker)) => Err(refusal(server, &breaker, next_try)),
        _ => Ok(()),
    }
}

fn refusal(server: &str, breaker: &Breaker, next_try: i64) -> ClaimsError {
    let (server, last_error) = (server.to_owned(), breaker.last_error().unwrap_or_default().to_owned());
    CellError::BreakerOpen { server, failures: breaker.failures(), last_error, next_try: Moment(next_try) }.into()
}

/// Raises an error while the breaker of a server is open. `is_own_call` says that no user's code can have made the call. If the server was
/// dropped meanwhile, connecting reports that.
pub fn admit(server: &str, service: Oid, is_own_call: bool) -> Result<AdmittedCall, ClaimsError> {
    let caller = caller(is_own_call);
    let call = |trial| AdmittedCall { service, caller, trial, is_reported: Cell::new(false), wait: Cell::default() };
    if service == Oid::INVALID || states::has_no_failures(service) {
        return Ok(call(false));
    }
    let limits = limits();
    let (admission, breaker) = states::with(service, |breaker, now| (breaker.admit(now, limits, caller), *breaker));
    match admission {
        Admission::Call { trial } => Ok(call(trial)),
        Admission::Refuse { next_try } => Err(refusal(server, &breaker, next_try)),
    }
}

impl AdmittedCall {
    /// Returns whether this is the one call by which the breaker tries whether the service is back.
    pub fn is_trial(&self) -> bool {
        self.trial
    }

    /// Notes how long the service may wait before it answers. This time is not part of the time it has to answer.
    pub fn waits(&self, wait: Duration) {
        self.wait.set(wait);
    }

    /// Reports that the service has answered.
    pub fn succeeded(&self) {
        self.is_reported.set(true);
        if !states::has_no_failures(self.service) {
            self.change(|breaker, now| breaker.succeeded(now));
        }
    }

    /// Reports an error. It counts as a failure if the service cannot be reached, or did not answer in a time that is enough. Any other
    /// error counts like a canceled call. A wrong answer is no failure: the service has answered, so not calling it would spare nothing,
    /// and a user who can provoke such an answer must not stop the calls of all others.
    pub fn failed(&self, error: &ClaimsError, request_bytes: usize) {
        let text = match error.of() {
            Some(CellError::ServiceUnreachable { detail, .. }) => detail.clone(),
            Some(CellError::ServiceSilent { timeout, .. })
                if is_enough(timeout.saturating_sub(self.wait.get()), request_bytes) =>
            {
                format!("It did not answer within {} ms.", timeout.as_millis())
            }
            _ => return,
        };
        self.is_reported.set(true);
        let limits = limits();
        self.change(|breaker, now| breaker.failed(self.trial, now, limits, self.caller, &text));
    }

    fn change(&self, change: impl Fn(&mut Breaker, i64)) {
        if self.service != Oid::INVALID {
            states::with(self.service, change);
        }
    }
}

impl Drop for AdmittedCall {
    fn drop(&mut self) {
        if self.trial && !self.is_reported.get() {
            self.change(|breaker, now| breaker.abandoned(now, self.caller));
        }
    }
}

/// Returns the rows of the view claims.service_state.
#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn service_states() -> Result<
    TableIterator<
        'static,
        (
            name!(service, String),
            name!(breaker, String),
            name!(failures, i32),
            name!(last_error, Option<String>),
            name!(since, TimestampWithTimeZone),
            name!(next_try, Option<TimestampWithTimeZone>),
        ),
    >,
    ErrorReport,
> {
    let caller = caller(false);
    // Servers that were dropped have no name, and are left out.
    let row = |(server, breaker): (Oid, Breaker)| {
        let row = (
            foreign::server_name(server)?,
            breaker.state_for(caller).name().to_owned(),
            i32::try_from(breaker.failures()).unwrap_or(i32::MAX),
            breaker.last_error().map(str::to_owned),
            Moment(breaker.since()).into(),
            breaker.next_try_for(caller).map(|moment| Moment(moment).into()),
        );
        Some(row)
    };
    Ok(TableIterator::new(states::known().into_iter().filter_map(row).collect::<Vec<_>>()))
}
