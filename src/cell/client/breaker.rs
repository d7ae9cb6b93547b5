//! The breaker of each service: while a service is dead, calls fail at once.
//!
//! Whoever has its state in hand is [`with`]; all else here works on one state at a time, and does not know where it lies.

use std::cell::{Cell, RefCell};

use claims_model::breaker::{Admission, Breaker, Limits};
use pgrx::datum::TimestampWithTimeZone;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::error::{CellError, ClaimsError};
use crate::pg::clock::Moment;
use crate::settings;

thread_local! {
    /// The services that this session has called.
    static BREAKERS: RefCell<Vec<(String, Breaker)>> = const { RefCell::new(Vec::new()) };
}

/// Does something with the state of a service's breaker.
fn with<T>(service: &str, change: impl FnOnce(&mut Breaker, i64) -> T) -> T {
    let now = Moment::now().0;
    BREAKERS.with_borrow_mut(|all| {
        let known = all.iter().position(|(name, _)| name == service);
        let place = known.unwrap_or_else(|| {
            all.push((service.to_owned(), Breaker::new(now)));
            all.len() - 1
        });
        change(&mut all[place].1, now)
    })
}

fn limits() -> Limits {
    Limits { failures: settings::breaker_failures(), pause: settings::breaker_pause() * 1000 }
}

/// A call that was let through. It must say how it went; otherwise it was canceled.
pub struct Call<'s> {
    service: &'s str,
    trial: bool,
    is_over: Cell<bool>,
}

/// Raises while the breaker is open.
pub fn admit(service: &str) -> Result<Call<'_>, ClaimsError> {
    let (admission, failures, last_error) = with(service, |breaker, now| {
        (breaker.admit(now, limits()), breaker.failures(), breaker.last_error().map(str::to_owned))
    });
    match admission {
        Admission::Call { trial } => Ok(Call { service, trial, is_over: Cell::new(false) }),
        Admission::Refuse { next_try } => Err(CellError::BreakerOpen {
            server: service.to_owned(),
            failures,
            last_error: last_error.unwrap_or_default(),
            next_try: Moment(next_try),
        }
        .into()),
    }
}

impl Call<'_> {
    /// The service has answered.
    pub fn succeeded(&self) {
        self.is_over.set(true);
        with(self.service, |breaker, now| breaker.succeeded(now));
    }

    /// Of errors those count that say that the service cannot be reached, or does not answer.
    pub fn failed(&self, error: &ClaimsError) {
        let text = match error {
            ClaimsError::Cell(CellError::ServiceUnreachable { detail, .. }) => detail.clone(),
            ClaimsError::Cell(CellError::ServiceSilent { timeout, .. }) => {
                format!("It did not answer within {} ms.", timeout.as_millis())
            }
            _ => return,
        };
        self.is_over.set(true);
        with(self.service, |breaker, now| breaker.failed(self.trial, now, limits(), &text));
    }

    pub fn fail(&self, error: CellError) -> ClaimsError {
        let error = error.into();
        self.failed(&error);
        error
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if self.trial && !self.is_over.get() {
            with(self.service, |breaker, now| breaker.abandoned(now));
        }
    }
}

/// What the view claims.service_state shows.
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
    let row = |(service, breaker): &(String, Breaker)| {
        (
            service.clone(),
            breaker.state().name().to_owned(),
            i32::try_from(breaker.failures()).unwrap_or(i32::MAX),
            breaker.last_error().map(str::to_owned),
            Moment(breaker.since()).into(),
            breaker.next_try().map(|moment| Moment(moment).into()),
        )
    };
    Ok(TableIterator::new(BREAKERS.with_borrow(|all| all.iter().map(row).collect::<Vec<_>>())))
}
