//! The breaker of each service: while a service is down, calls fail at once. [`states`] keeps its state.

use std::cell::Cell;

use claims_model::breaker::{Admission, Breaker, Limits};
use pgrx::datum::TimestampWithTimeZone;
use pgrx::pg_sys::Oid;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use super::states;
use crate::error::{CellError, ClaimsError};
use crate::pg::clock::Moment;
use crate::pg::foreign;
use crate::settings;

fn limits() -> Limits {
    Limits { failures: settings::breaker_failures(), pause: settings::breaker_pause() * 1000 }
}

/// A call that was let through. Its result must be reported; otherwise it counts as canceled.
pub struct Call {
    service: Oid,
    trial: bool,
    is_over: Cell<bool>,
}

/// Raises while the breaker of a server is open.
pub fn admit(server: &str) -> Result<Call, ClaimsError> {
    // If the server was dropped meanwhile, connecting reports that.
    admit_to(server, foreign::server(server).unwrap_or(Oid::INVALID))
}

/// Raises while the breaker of a server is open, and changes nothing: for callers who would only prepare a call in vain.
pub fn refuse_if_open(server: &str) -> Result<(), ClaimsError> {
    let Some(service) = foreign::server(server) else { return Ok(()) };
    match states::peek(service, |mut breaker, now| (breaker.admit(now, limits()), breaker)) {
        Some((Admission::Refuse { next_try }, breaker)) => Err(refusal(server, &breaker, next_try)),
        _ => Ok(()),
    }
}

fn refusal(server: &str, breaker: &Breaker, next_try: i64) -> ClaimsError {
    let (server, last_error) = (server.to_owned(), breaker.last_error().unwrap_or_default().to_owned());
    CellError::BreakerOpen { server, failures: breaker.failures(), last_error, next_try: Moment(next_try) }.into()
}

/// The same, if the server's oid is known.
pub fn admit_to(server: &str, service: Oid) -> Result<Call, ClaimsError> {
    let call = |trial| Call { service, trial, is_over: Cell::new(false) };
    if service == Oid::INVALID || states::is_untroubled(service) {
        return Ok(call(false));
    }
    let limits = limits();
    let (admission, breaker) = states::with(service, |breaker, now| (breaker.admit(now, limits), *breaker));
    match admission {
        Admission::Call { trial } => Ok(call(trial)),
        Admission::Refuse { next_try } => Err(refusal(server, &breaker, next_try)),
    }
}

impl Call {
    /// The service has answered.
    pub fn succeeded(&self) {
        self.is_over.set(true);
        if !states::is_untroubled(self.service) {
            self.change(|breaker, now| breaker.succeeded(now));
        }
    }

    /// Only errors that mean that the service cannot be reached, or does not answer, count.
    pub fn failed(&self, error: &ClaimsError) {
        let text = match error {
            ClaimsError::Cell(CellError::ServiceUnreachable { detail, .. }) => detail.clone(),
            ClaimsError::Cell(CellError::ServiceSilent { timeout, .. }) => {
                format!("It did not answer within {} ms.", timeout.as_millis())
            }
            _ => return,
        };
        self.is_over.set(true);
        let limits = limits();
        self.change(|breaker, now| breaker.failed(self.trial, now, limits, &text));
    }

    pub fn fail(&self, error: CellError) -> ClaimsError {
        let error = error.into();
        self.failed(&error);
        error
    }

    fn change(&self, change: impl Fn(&mut Breaker, i64)) {
        if self.service != Oid::INVALID {
            states::with(self.service, change);
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.trial && !self.is_over.get() {
            self.change(|breaker, now| breaker.abandoned(now));
        }
    }
}

/// The rows of the view claims.service_state.
#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
#[allow(clippy::type_complexity)]
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
    // Dropped servers are not shown.
    let row = |(server, breaker): (Oid, Breaker)| {
        let row = (
            foreign::server_name(server)?,
            breaker.state().name().to_owned(),
            i32::try_from(breaker.failures()).unwrap_or(i32::MAX),
            breaker.last_error().map(str::to_owned),
            Moment(breaker.since()).into(),
            breaker.next_try().map(|moment| Moment(moment).into()),
        );
        Some(row)
    };
    Ok(TableIterator::new(states::known().into_iter().filter_map(row).collect::<Vec<_>>()))
}
