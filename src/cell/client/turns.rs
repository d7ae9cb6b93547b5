//! Limits how many calls the sessions of this server make to a service at the same time, if the library is preloaded.
//! `claims_model::turns` has the rules.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use claims_model::queue::{ServiceKey, Ticket};
use claims_model::turns::{TurnArrival, Turns};
use pgrx::pg_sys::Oid;

use super::places::{self, key};
use crate::cell::errors::CellError;
use crate::kernel::error::ClaimsError;
use crate::kernel::settings;
use pg::shared::Locked;
use pg::{background, wait};

pub static TURNS: Locked<Turns> = Locked::new(c"claims turns");

/// The place of this process among the callers of a service.
#[derive(Clone, Copy)]
enum CallerPlace {
    Calling(ServiceKey),
    Waiting(ServiceKey, Ticket),
}

impl CallerPlace {
    fn service(self) -> ServiceKey {
        match self {
            CallerPlace::Calling(service) | CallerPlace::Waiting(service, _) => service,
        }
    }
}

thread_local! {
    /// The places of this process, at most one for each service. Left by the guard [`Turn`], or at the exit of the process.
    static OWN: RefCell<Vec<CallerPlace>> = const { RefCell::new(Vec::new()) };
    static HAS_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

fn has_place(service: ServiceKey) -> bool {
    OWN.with_borrow(|own| own.iter().any(|place| place.service() == service))
}

/// Sets the place of this process among the callers of a service.
fn take_place(place: CallerPlace) {
    OWN.with_borrow_mut(|own| {
        own.retain(|other| other.service() != place.service());
        own.push(place);
    });
}

/// A guard: this session may make one call. The call ends when the guard is dropped, also after an error.
///
/// A session that calls several services at once takes its turns in the order of the servers' oids, so no two sessions wait for each other.
/// While it has a turn, it waits for nothing else: a session that has no connection, and finds no place for one, pauses meanwhile.
#[derive(Default)]
pub struct Turn {
    /// The service at which the call counts.
    counted_at: Option<ServiceKey>,
    /// The position in the order of arrival, also while it is paused.
    ticket: Option<Ticket>,
    /// How long this session has waited for it, as far as its call has not counted that.
    pub waited: Duration,
}

impl Turn {
    /// Ends the call for now: another session gets the turn. [`Turn::come`] resumes it.
    pub fn pause(&mut self) {
        if let Some(service) = self.counted_at.take() {
            leave(service);
        }
    }

    /// Waits for the turn of this session, for the first time or after a pause. After a pause it comes before all that arrived later. If it
    /// has to wait, it first calls `before_waiting`, whose error ends it. Raises 53300 at the deadline.
    pub fn come(
        &mut self,
        server: &str,
        service: Oid,
        deadline: Instant,
        before_waiting: impl FnOnce() -> Result<(), ClaimsError>,
    ) -> Result<(), ClaimsError> {
        let limit = settings::max_service_calls();
        let key = key(service);
        // A call within a call is no further one.
        if limit == 0 || service == Oid::INVALID || has_place(key) {
            return Ok(());
        }
        if !HAS_CALLBACK.replace(true) {
            background::at_exit(leave_all);
        }
        let arrival = TURNS.write(|turns| {
            let arrival = turns.arrive(key, limit, background::own_sleeper(), self.ticket);
            match arrival {
                TurnArrival::Now(_) => take_place(CallerPlace::Calling(key)),
                TurnArrival::Wait(ticket) => take_place(CallerPlace::Waiting(key, ticket)),
                TurnArrival::Uncounted | TurnArrival::Full => {}
            }
            arrival
        });
        self.counted_at = has_place(key).then_some(key);
        let too_many = || {
            places::call_failed(service);
            CellError::TooManyCalls { server: server.to_owned(), limit }
        };
        match arrival {
            Some(TurnArrival::Now(ticket)) => {
                self.ticket = Some(ticket);
                Ok(())
            }
            None | Some(TurnArrival::Uncounted) => Ok(()),
            Some(TurnArrival::Full) => Err(too_many().into()),
            Some(TurnArrival::Wait(ticket)) => {
                self.ticket = Some(ticket);
                before_waiting()?;
                let since = Instant::now();
                let comes = comes(ticket, key, deadline);
                self.waited += since.elapsed();
                if comes { Ok(()) } else { Err(too_many().into()) }
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(service) = self.counted_at {
            leave(service);
        }
    }
}

/// Waits until it is the turn of a ticket. Returns `false` at the deadline.
fn comes(ticket: Ticket, key: ServiceKey, deadline: Instant) -> bool {
    loop {
        let take = |turns: &mut Turns| {
            let is_taken = turns.take(ticket);
            if is_taken {
                take_place(CallerPlace::Calling(key));
            }
            is_taken
        };
        if TURNS.write(take).unwrap_or(true) {
            return true;
        }
        let time = deadline.saturating_duration_since(Instant::now());
        if time.is_zero() {
            return false;
        }
        wait::sleep(time);
    }
}

/// Ends all calls of this process, at its exit.
fn leave_all() {
    let services: Vec<_> = OWN.with_borrow(|own| own.iter().map(|place| place.service()).collect());
    services.into_iter().for_each(leave);
}

/// Ends the call of this process to a service, or its waiting, and wakes the processes whose turn it is then.
fn leave(service: ServiceKey) {
    let place = OWN
        .with_borrow_mut(|own| own.iter().position(|place| place.service() == service).map(|at| own.swap_remove(at)));
    let Some(place) = place else { return };
    let limit = settings::max_service_calls();
    TURNS.write(|turns| {
        let service = match place {
            CallerPlace::Calling(service) => {
                turns.end(service);
                service
            }
            CallerPlace::Waiting(service, ticket) => {
                turns.give_up(ticket);
                service
            }
        };
        // If the limit was lifted meanwhile, everybody who waits may call.
        let limit = if limit == 0 { u32::MAX } else { limit };
        while let Some(process) = turns.next_turn(service, limit) {
            background::wake_sleeper(process);
        }
    });
}
